// Gains as sliders. Scores = base + Σ over heads of (s − 1)·whole + s·Σ over axes of (g − 1)·axis: the direct effect, added up here.
views.push({ id: "equaliser", title: "Equaliser", build: buildEqualiser, update: updateEqualiser });
const Q = { shown: 24, low: 0, high: 3 };

function loadEqualiser() {
  const e = D.equaliser;
  const [heads, clips, classes] = e.whole.shape, size = clips * classes;
  const cut = (flat, i) => flat.subarray(i * size, (i + 1) * size);
  const learned = e.gains.flat();
  Q.low = Math.min(0, Math.floor(2 * Math.min(...learned)) / 2);
  Q.high = Math.max(2, Math.ceil(2 * Math.max(...learned)) / 2);
  const whole = unpack(e.whole), rest = unpack(e.rest);
  Object.assign(Q, {
    clips, classes, size, base: unpack(e.base), adapted: unpack(e.adapted), dropped: unpack(e.dropped),
    whole: HEADS.map((_, i) => cut(whole, i)),
    axis: e.axis.map((packed) => { const flat = unpack(packed); return Array.from({ length: packed.shape[0] }, (_, a) => cut(flat, a)); }),
    rest: e.heads.map((_, j) => rest && cut(rest, j)),
    target: e.clips.map((c) => D.clips[c].class),
  });
}
const two = (v) => v.toFixed(2).replace("-", "−");
const strength = () => {
  const asked = Number(state.strength) / 100;
  return !D.equaliser.learned ? 0 : state.strength === "" || !Number.isFinite(asked) ? 1 : clamp(asked, 0, 1);
};
// Moved sliders, "S3B0H1:0.5;S3B0H1.2:1.5": a head's volume, or its axis.
const moved = () => Object.fromEntries(state.gains.split(";").filter(Boolean).map((one) => { const [k, v] = one.split(":"); return [k, Number(v)]; }).filter(([, v]) => Number.isFinite(v)));
function move(key, value, rest) {
  const all = moved();
  if (Math.abs(value - rest) < 0.005) delete all[key]; else all[key] = value;
  set({ gains: Object.entries(all).map(([k, v]) => `${k}:${v}`).join(";") });
}
const learnedGain = (j, a) => 1 + strength() * (D.equaliser.gains[j][a] - 1);

function scoresNow() {
  const e = D.equaliser, all = moved(), t = strength(), total = Float32Array.from(Q.base);
  const add = (values, factor) => { if (factor) for (let i = 0; i < Q.size; i++) total[i] += factor * values[i]; };
  if (Q.dropped) add(Q.dropped, t);
  for (let i = 0; i < HEADS.length; i++) if (HEADS[i] in all) add(Q.whole[i], all[HEADS[i]] - 1);
  e.heads.forEach((label, j) => {
    const s = all[label] ?? 1;
    Q.axis[j].forEach((values, a) => add(values, s * ((all[`${label}.${a + 1}`] ?? learnedGain(j, a)) - 1)));
    if (Q.rest[j]) add(Q.rest[j], s * t);
  });
  return total;
}
// Accuracy counts ties as wrong; the margin is the true class's score above the best other one's.
function judge(scores) {
  let right = 0, margin = 0;
  const byClass = D.classes.map(() => [0, 0]);
  for (let i = 0; i < Q.clips; i++) {
    const row = scores.subarray(i * Q.classes, (i + 1) * Q.classes), own = row[Q.target[i]];
    let rival = -Infinity;
    for (let c = 0; c < Q.classes; c++) if (c !== Q.target[i] && row[c] > rival) rival = row[c];
    right += own > rival; margin += own - rival;
    byClass[Q.target[i]][0] += own > rival; byClass[Q.target[i]][1] += 1;
  }
  return { accuracy: right / Q.clips, margin: margin / Q.clips, byClass: byClass.map(([a, b]) => (b ? a / b : null)) };
}
function slider(label, value, [least, most], onmove, attributes = {}) {
  return el("input", { type: "range", min: least, max: most, step: 0.01, value, "aria-label": label, oninput: (e) => onmove(Number(e.target.value)), ...attributes });
}
function buildEqualiser(panel) {
  const e = D.equaliser;
  if (!e) {
    fill(panel, el("section", { class: "card" }, el("h2", {}, "Equaliser"), D.missing.components && !D.meta.notes.length ? lacking("components", "The run has neither head outputs nor moments.") : withoutModel()));
    return;
  }
  loadEqualiser();
  Q.before = judge(Q.base);
  Q.learned = Q.adapted && judge(Q.adapted);
  Q.result = el("div", { class: "tiles", role: "status" });
  Q.master = slider("Strength of the learned gains, from none to all", strength(), [0, 1], (v) => set({ strength: Math.round(100 * v) }), { id: "strength" });
  Q.rack = el("div", { class: "rack" });
  Q.list = el("div", { class: "faders" });
  Q.plot = plotBox(60 + 19 * Math.min(16, D.classes.length), "Accuracy by class before and now");
  fill(panel,
    el("section", { class: "card" }, el("h2", {}, "Equaliser"),
      el("p", { class: "note" }, `The effect of gains on ${Q.clips} clips, classified by ${e.classifier}. This is the `, el("b", {}, "direct effect"), ": what a head itself writes into the embedding, with all norms held. Effects through later units are not included, except in the figure for the whole ", live.equaliser ? "network, which runs with every gain that you move." : "model."),
      D.meta.model_notes.map((n) => el("p", { class: "note" }, n)), Q.result,
      e.learned ? el("div", { class: "master" }, el("span", {}, "before"), Q.master, el("span", {}, "learned")) : el("p", { class: "lacking" }, "No adapter was given, so all gains start at one. ", el("code", {}, `residual-audio adapt ${D.meta.model.name} ${D.meta.dataset.name} --out ADAPTER`), " learns some; add it with ", el("code", {}, "--adapter ADAPTER"), "."),
      el("div", { class: "pick" }, el("button", { onclick: () => set({ gains: "" }) }, "Undo my moves"), live.equaliser?.steps())),
    live.equaliser?.card(),
    el("div", { class: "split even" },
      el("section", { class: "card" }, Q.rack),
      el("section", { class: "card" }, el("h2", {}, "By class"), Q.plot)),
    el("section", { class: "card" }, el("h2", {}, "Volume of heads"), el("p", { class: "note" }, "A volume scales a head's variation about its mean. Small bars: gains of its axes."), Q.list));
}
function updateEqualiser(changed) {
  if (!D.equaliser) return;
  live.equaliser?.update();
  const now = judge(scoresNow());
  const tile = (value, what, note, extra = "") => el("div", { class: `tile ${extra}` }, el("strong", {}, value), el("span", {}, what), el("small", {}, note));
  fill(Q.result, tile(percent(Q.before.accuracy), "before", `margin ${number(Q.before.margin)}`),
    tile(percent(now.accuracy), "now, direct effect", `margin ${number(now.margin)}`, "now"),
    live.equaliser?.tile(tile),
    Q.learned && !live.equaliser ? tile(percent(Q.learned.accuracy), "whole model, learned gains", `margin ${number(Q.learned.margin)}; nothing held`) : null);
  Q.result.dataset.accuracy = now.accuracy;
  if (document.activeElement !== Q.master) Q.master.value = strength();
  rack(changed); faders(changed); byClass(now);
}
// The chosen head's axes. While a slider is held, only figures change, so that it is not replaced under the finger.
function rack(changed) {
  const held = Q.rack.contains(document.activeElement) && document.activeElement.type === "range" && !changed.has("head");
  const e = D.equaliser, all = moved(), here = e.heads.includes(state.head), label = here ? state.head : e.heads[byChange()[0]], j = e.heads.indexOf(label);
  if (held) {
    Q.rack.querySelectorAll("input.tall").forEach((input) => { input.nextSibling.textContent = two(Number(input.value)); });
    return;
  }
  const s = all[state.head] ?? 1;
  const volume = el("label", { class: "fader" }, el("span", {}, "volume"), slider(`Volume of ${state.head}`, s, [0, 2], (v) => move(state.head, v, 1)), el("output", {}, two(s)));
  fill(Q.rack, el("h2", {}, label, el("small", {}, " gains of its axes")),
    el("div", { class: "bands" }, e.gains[j].map((g, a) => {
      const value = all[`${label}.${a + 1}`] ?? learnedGain(j, a);
      return el("label", { class: "band" }, slider(`Gain of axis ${a + 1} of ${label}`, value, [Q.low, Q.high], (v) => move(`${label}.${a + 1}`, v, learnedGain(j, a)), { class: "tall", orient: "vertical" }), el("output", {}, two(value)), el("span", {}, String(a + 1)));
    })),
    e.further[j].length ? el("p", { class: "note" }, `${e.further[j].length} further axes ${e.learned ? "follow the strength slider above" : "stay at one"}.`) : null,
    here ? null : [el("p", { class: "note" }, `The selected head ${state.head} has ${e.learned ? "no learned gains" : "no sliders for its axes"}; its volume:`), volume]);
}
function profile(j) {
  const all = moved(), label = D.equaliser.heads[j], ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", `0 0 ${6 * D.equaliser.gains[j].length} 20`);
  svg.setAttribute("aria-hidden", "true");
  D.equaliser.gains[j].forEach((_, a) => {
    const bar = document.createElementNS(ns, "rect"), height = clamp((20 * (all[`${label}.${a + 1}`] ?? learnedGain(j, a))) / Q.high, 0.5, 20);
    for (const [k, v] of Object.entries({ x: 6 * a + 1, width: 4, y: 20 - height, height })) bar.setAttribute(k, v);
    svg.append(bar);
  });
  return svg;
}
function byChange() {
  const change = D.equaliser.gains.map((all) => all.reduce((sum, g) => sum + Math.abs(g - 1), 0));
  return change.map((_, j) => j).sort((a, b) => change[b] - change[a]);
}
function faders(changed) {
  if (Q.list.contains(document.activeElement) && document.activeElement.type === "range") {
    const row = document.activeElement.closest(".fader");
    row.querySelector("output").textContent = two(Number(document.activeElement.value));
    return;
  }
  const e = D.equaliser, all = moved();
  const order = byChange();
  fill(Q.list, order.slice(0, Q.shown).map((j) => {
    const label = e.heads[j], value = all[label] ?? 1;
    return el("div", { class: "fader" }, el("button", { class: "link", "aria-pressed": String(label === state.head), onclick: () => set({ head: label }) }, label), profile(j),
      slider(`Volume of ${label}`, value, [0, 2], (v) => move(label, v, 1), { "data-volume": label }), el("output", {}, two(value)));
  }), Q.shown < order.length ? el("button", { onclick: () => { Q.shown = order.length; faders(changed); } }, `Show all ${order.length}`) : null);
}
function byClass(now) {
  const order = D.classes.map((_, c) => c).filter((c) => now.byClass[c] != null).sort((a, b) => (now.byClass[b] - Q.before.byClass[b]) - (now.byClass[a] - Q.before.byClass[a]));
  const shown = (order.length > 16 ? [...order.slice(0, 8), ...order.slice(-8)] : order).reverse();
  const trace = (result, name, colour, symbol) => ({ type: "scatter", mode: "markers", name, x: shown.map((c) => 100 * result.byClass[c]), y: shown.map((_, i) => i), marker: { size: 10, color: colour, symbol },
    customdata: shown.map((c) => plain(D.classes[c])), hovertemplate: `%{customdata}: %{x:.0f} % ${name}<extra></extra>` });
  plot(Q.plot, () => [trace(Q.before, "before", tone("--faint"), "circle-open"), trace(now, live.equaliser ? "direct" : "now", tone("--accent"), "circle"), ...(live.equaliser?.traces(trace) ?? [])], () => ({
    margin: { l: 8, r: 12, t: 24, b: 38 }, showlegend: true, legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom" },
    xaxis: { title: axisTitle("accuracy, %"), range: [-4, 104], zeroline: false }, yaxis: { zeroline: false,  tickvals: shown.map((_, i) => i), ticktext: shown.map((c) => plain(short(D.classes[c], 26))), tickfont: { size: 11 } } }));
}
