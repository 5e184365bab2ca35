// Hear why: what of a sound speaks for a text or class, and what does not; concepts that the model hears in it, split by unit.
const W = { asked: "", answer: null };
live.explain = {
  build() {
    W.box = el("div", { id: "explanation" });
    W.ask = el("button", { id: "explain", onclick: askWhy }, "Explain");
    W.card = el("section", { class: "card", hidden: true }, el("h2", {}, "Hear why"), el("p", { class: "note" }, "The map as a mask on the spectrogram: what speaks for the chosen text or class, and the rest. Takes a few seconds: the network also runs on random masks, to say whether this one does better."),
      el("div", { class: "pick" }, W.ask), W.box);
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
async function askWhy() {
  const key = W.asked, target = targetNow();
  W.ask.disabled = true;
  fill(W.box, busy("The network listens to the sound again, in parts …"));
  try {
    const answer = await request(soundPath("explain"), { body: target });
    if (key === W.asked) fill(W.box, explanation(answer, targetName(target)));
  } catch (error) {
    if (key === W.asked) fill(W.box, trouble(error));
  } finally { W.ask.disabled = false; }
}
function explanation(a, name) {
  const heard = (what, src, id) => (src ? el("figure", { class: "clip" }, el("figcaption", {}, el("b", {}, what)), el("audio", { controls: true, preload: "auto", src, id, "aria-label": what, onplay: alone })) : null);
  return [
    el("div", { class: "clips many" }, heard(`speaks for “${short(name, 30)}”`, a.kept, "kept"), heard(`the rest, which does not`, a.removed, "removed")),
    a.faithfulness?.length ? [el("h3", {}, "Does the mask matter?"), records(a.faithfulness)] : null,
    a.concepts?.length ? [el("h3", {}, "Concepts that the model hears in it"), dataTable(["concept", "weight", "units"], a.concepts.map((c) => [c.concept, number(c.weight), (c.units ?? []).map((u) => `${u.label} ${number(u.share, 2)}`).join(", ")]))] : null];
}
