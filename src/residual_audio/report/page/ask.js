// Ask: which heads and components move clips towards a text, which clips show it, and where in them it is written.
views.push({ id: "ask", title: "Ask", build: buildAsk, update: updateAsk });
const A = {};
const askedAs = (text) => D.ask?.texts.find((t) => t.text === text);
const askedText = () => askedAs(state.ask);

function buildAsk(panel) {
  if (!D.ask) {
    fill(panel, el("section", { class: "card" }, el("h2", {}, "Ask"), D.missing.direct ? lacking("direct", "The run has no direct shares.") : withoutModel()));
    return;
  }
  A.input = el("input", { type: "search", list: "texts", id: "asked", placeholder: live.ask ? "any text" : "a class or a word", "aria-label": "Text to ask for", autocomplete: "off",
    oninput: (e) => (D.ask.texts.some((t) => t.text === e.target.value) ? set({ ask: e.target.value }) : suggest(e.target.value)),
    onkeydown: (e) => { if (e.key === "Enter") { const first = matches(e.target.value)[0]; if (live.ask && !askedAs(e.target.value)) live.ask(e.target.value); else if (first) { e.target.value = first.text; set({ ask: first.text }); } } } });
  A.hints = el("div", { class: "pick" });
  A.answer = el("div", {});
  const words = D.ask.texts.filter((t) => t.kind === "word").length;
  fill(panel, el("section", { class: "card" }, el("h2", {}, "Ask"),
    el("p", { class: "note" }, `${D.classes.length} classes${words ? ` and ${words} words of a dictionary` : ""} are on this page. A head's share is the part of the clip-to-clip variation of the cosine with the text that its direct share accounts for (${D.ask.counted} clips); over all units and the constant, shares sum to one. Class scores: ${D.ask.classifier}.`),
    el("div", { class: "tools" }, el("label", {}, el("span", {}, live.ask ? "Type any text, then Enter" : "Type a class or a word"), A.input),
      words ? select("Or pick a word", [["", "–"], ...D.ask.texts.filter((t) => t.kind === "word").map((t) => [t.text, t.text])], "", (v) => { if (v) { A.input.value = v; set({ ask: v }); } }) : null), A.hints,
    el("datalist", { id: "texts" }, D.ask.texts.map((t) => el("option", { value: t.text })))), A.answer);
}
const matches = (text) => { const q = text.trim().toLowerCase(); return D.ask.texts.filter((t) => t.text.toLowerCase().includes(q)); };
function suggest(text) {
  const some = text.trim() ? matches(text).slice(0, 12) : D.ask.texts.filter((t) => t.kind === "class").slice(0, 16);
  fill(A.hints, some.length ? some.map((t) => el("button", { "aria-pressed": String(t.text === state.ask), onclick: () => { A.input.value = t.text; set({ ask: t.text }); } }, t.text))
    : live.ask ? null : el("p", { class: "lacking" }, "This text is not on the page. To ask the model: ", el("code", {}, `residual-audio ask RUN "${text}"`)),
    live.ask && text.trim() && !askedAs(text) ? el("button", { class: "ask", onclick: () => live.ask(text) }, `Ask the model for “${short(text, 40)}”`) : null);
}
function updateAsk(changed) {
  if (!D.ask) return;
  if (document.activeElement !== A.input) A.input.value = state.ask;
  suggest(askedText() ? "" : A.input.value);
  const t = askedText() ?? (state.ask ? null : D.ask.texts[0]);
  if (!t) return live.ask ? live.ask(state.ask) : fill(A.answer);
  if (A.shown === t) { if (changed.has("head")) paintGrid(A.grid, A.measure); return; }
  A.shown = t;
  A.grid = headGrid(`Heads by their share of the variation towards ${t.text}`);
  A.measure = { key: "ask", name: "share", kind: "zero", values: HEADS.map((h) => t.share[D.ask.units.indexOf(h)]) };
  paintGrid(A.grid, A.measure);
  A.grid.cells.forEach((cell) => cell.addEventListener("click", () => set({ view: "heads" })));
  const order = t.share.map((_, u) => u).sort((a, b) => Math.abs(t.share[b]) - Math.abs(t.share[a])).slice(0, 12);
  const units = plotBox(60 + 20 * order.length, `Units by their share towards ${t.text}`);
  bars(units, order.map((u) => (D.ask.units[u] === "E" ? "embedding" : D.ask.units[u])), order.map((u) => 100 * t.share[u]), { title: "share of the variation, %", unit: " %", colour: (i) => (t.share[order[i]] < 0 ? ZERO[0] : ZERO[4]) });
  fill(A.answer, el("div", { class: "split even" },
    el("section", { class: "card" }, el("h2", {}, `Heads that move clips towards “${t.text}”`), el("p", { class: "note" }, "Red: towards the text; blue: away from it. Click a head to open it."), A.grid.node),
    el("section", { class: "card" }, el("h2", {}, "All units, with MLPs"), units)),
  el("section", { class: "card" }, el("h2", {}, "Components"), el("p", { class: "note" }, "Principal components of heads' direct shares, with the cosine between the component's axis and the text."),
    el("div", { class: "pick" }, t.components.map(([u, k, share, along]) => el("button", { onclick: () => set({ view: "heads", head: D.ask.units[u] }) }, `${D.ask.units[u]} component ${k}`, el("small", {}, ` ${percent(share)}, cosine ${number(along, 2)}`))))),
  el("section", { class: "card" }, el("h2", {}, "Clips that show it"), el("p", { class: "note" }, IMAGES
      ? "The clips with the largest cosines. Shares of an image are written at the class token, so there is no map of the picture."
      : "Left: the sound. Right: where in the model's window units write towards the text, more (red) or less (blue) than in the mean cell; frequency points up. Units also read from elsewhere, so a map does not prove where the sound is."),
    el("div", { class: "answers" }, t.clips.map((c) => el("div", { class: "answer" }, clipCard(c.clip, `cosine ${number(c.score)}`), c.map ? mapPicture(c.map, t.text) : null)))));
}
function mapPicture(packed, text) {
  const values = unpack(packed), [rows, columns] = packed.shape, total = values.reduce((a, b) => a + b, 0), mean = total / values.length;
  const most = Math.max(1e-12, ...values.map((v) => Math.abs(v - mean)));
  const seconds = D.meta.preprocessing.reduce((s, [k, v]) => ({ ...s, [k]: Number(v) }), {});
  const length = seconds.samples && seconds.sample_rate ? `0 – ${number(seconds.samples / seconds.sample_rate)} s` : "the window";
  return el("figure", { class: "map" }, picture(values, rows, columns, ZERO, mean - most, mean + most), el("figcaption", {}, el("small", {}, `towards “${short(text, 30)}”, ${length}; all cells sum to ${number(total, 2)}`)));
}
