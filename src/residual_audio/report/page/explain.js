// Hear why: what of a sound speaks for a text or class, and what does not; concepts that the model hears in it, split by unit.
const W = { asked: "", answer: null };
live.explain = {
  build() {
    W.box = el("div", { id: "explanation" });
    W.ask = el("button", { id: "explain", onclick: () => askWhy(false) }, "Explain");
    W.check = el("button", { id: "explain-check", onclick: () => askWhy(true) }, "Explain and check (slower)");
    W.card = el("section", { class: "card", hidden: true }, el("h2", {}, "Hear why"), el("p", { class: "note" }, "The map as a mask on the spectrogram: the part of the sound that speaks most for the chosen text or class, the part that speaks against it, and all but the first. The check deletes and inserts cells in the order of the map, of gradients and of chance."),
      el("div", { class: "pick" }, W.ask, W.check), W.box);
    return IMAGES ? null : W.card;
  },
  update() {
    if (!W.card) return;
    const target = state.sound && targetNow();
    W.card.hidden = !target;
    if (!target) return;
    const key = JSON.stringify([state.sound, target]);
    W.ask.textContent = `Explain “${short(targetName(target), 40)}”`;
    if (key !== W.asked) { W.asked = key; W.answer = null; fill(W.box); }
  },
};
async function askWhy(curves) {
  const key = W.asked, target = targetNow();
  W.ask.disabled = W.check.disabled = true;
  fill(W.box, busy("The network listens to the sound again, in parts …"));
  try {
    const answer = await request(soundPath("explain"), { body: { ...target, curves } });
    if (key === W.asked) fill(W.box, explanation(answer, targetName(target)));
  } catch (error) {
    if (key === W.asked) fill(W.box, trouble(error));
  } finally { W.ask.disabled = W.check.disabled = false; }
}
function explanation(a, name) {
  const heard = (what, src, id) => (src ? el("figure", { class: "clip" }, el("figcaption", {}, el("b", {}, what)), el("audio", { controls: true, preload: "auto", src, id, "aria-label": what, onplay: alone })) : null);
  return [
    el("div", { class: "clips many" }, heard(`for “${short(name, 30)}”`, a.kept, "kept"), heard("against it", a.against, "against"), heard("without what speaks for it", a.removed, "removed"), heard("the whole sound", a.original, "original")),
    a.faithfulness?.length ? [el("h3", {}, "Does the map matter?"), el("p", { class: "note" }, "Mean score while cells are deleted (lower is better) or inserted (higher is better) in the order of the map, of gradients, or of chance; difference: insertion minus deletion."), records(a.faithfulness, Object.keys(a.faithfulness[0]).filter((k) => k !== "text"))] : null,
    a.concepts?.length ? [el("h3", {}, "Concepts that the model hears in it"), dataTable(["concept", "weight", "units"], a.concepts.map((c) => [c.asked ? `${c.concept} (asked)` : c.concept, number(c.weight), (c.units ?? []).map((u) => `${u.label} ${number(u.share, 2)}`).join(", ")]))] : null];
}
