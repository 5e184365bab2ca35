// One head: spectrum, components with the clips at both ends, classes, neighbours, ablation, words, cluster.
function part(title, ...children) {
  return el("section", { class: "part" }, el("h3", {}, title), children);
}
function showHead(panel) {
  const i = indexOf[state.head], all = D.components?.[i];
  const values = D.measures.filter((m) => m.values[i] != null).map((m) => [m.name, number(m.values[i])]);
  fill(panel,
    el("h2", { "aria-live": "polite" }, state.head, el("small", {}, ` stage ${D.heads.stage[i]}, block ${D.heads.block[i]}, head ${D.heads.head[i]}`)),
    values.length ? el("dl", { class: "chips" }, values.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v)))) : lacking("heads", "No measures."),
    all ? componentsOf(all) : part("Components", lacking("components", "The run has no head outputs.")),
    gainsOf(), ablationOf(i), wordsOf(), nearOf(i), clusterOf(i));
}
function componentsOf(all) {
  const k = clamp(Number(state.pc || 1), 1, all.parts.length) - 1, one = all.parts[k];
  const spectrum = plotBox(130, `Shares of the variance along the principal axes of ${state.head}`);
  plot(spectrum, () => [{ type: "bar", x: all.spectrum.map((_, j) => j + 1), y: all.spectrum.map((v) => 100 * v), hovertemplate: "axis %{x}: %{y:.1f} %<extra></extra>",
    marker: { color: all.spectrum.map((_, j) => (j === k ? tone("--accent") : tone("--faint"))) } }],
  () => ({ margin: { l: 44, r: 8, t: 4, b: 34 }, bargap: 0.2, xaxis: { title: axisTitle("principal axis"), dtick: all.spectrum.length > 12 ? 4 : 1 }, yaxis: { title: axisTitle("variance, %"), nticks: 4 } }),
  (node) => node.on("plotly_click", (e) => { const to = e.points[0].pointIndex + 1; if (to <= all.parts.length) set({ pc: to }); }));
  const order = one.means.map((_, c) => c).filter((c) => one.means[c] != null).sort((a, b) => one.means[b] - one.means[a]);
  const shown = order.length > 14 ? [...order.slice(0, 7), ...order.slice(-7)] : order;
  const means = plotBox(60 + 19 * shown.length, `Mean of component ${k + 1} by class`);
  bars(means, shown.map((c) => D.classes[c]), shown.map((c) => one.means[c]), { title: "class mean, in standard deviations of all clips", colour: (j) => (one.means[shown[j]] < 0 ? ZERO[0] : ZERO[4]) });
  const tabs = el("div", { class: "pick", role: "group", "aria-label": "Component" }, all.parts.map((p, j) =>
    el("button", { "aria-pressed": String(j === k), onclick: () => set({ pc: j + 1 }) }, `PC${j + 1}`, el("small", {}, ` ${percent(all.spectrum[j], 0)}`))));
  const end = (name, clips) => el("div", { class: "end" }, el("h4", {}, name), el("div", { class: "clips" }, clips.map((c) => clipCard(c))));
  return [
    part("Spectrum", spectrum, tabs),
    part(`Clips at both ends of PC${k + 1}`, el("p", { class: "note" }, `Of the ${D.clips.length} clips on this page; the sign of an axis is arbitrary.`),
      el("div", { class: "ends" }, end("low", one.low), end("high", one.high))),
    part(`Classes along PC${k + 1}`, el("p", { class: "note" }, `Fisher ratio along it: ${number(one.fisher)}.${shown.length < order.length ? " The seven at each end." : ""}`), means)];
}
function gainsOf() {
  const e = D.equaliser, j = e?.learned ? e.heads.indexOf(state.head) : -1;
  if (j < 0) return null;
  return part("Learned gains", el("p", { class: "note" }, e.gains[j].map((g, a) => `${a + 1}: ${number(g)}`).join("   ")),
    el("button", { onclick: () => set({ view: "equaliser" }) }, "Open in the equaliser"));
}
function ablationOf(i) {
  const row = D.by_class.ablation?.[i];
  if (!row) return part("Ablation by class", lacking("ablation_head", "No ablation of heads."));
  const order = row.map((_, c) => c).filter((c) => row[c] != null).sort((a, b) => row[b] - row[a]);
  const shown = order.length > 14 ? [...order.slice(0, 7), ...order.slice(-7)] : order;
  const box = plotBox(60 + 19 * shown.length, `What ablating ${state.head} does to each class`);
  bars(box, shown.map((c) => D.classes[c]), shown.map((c) => row[c]), { title: "margin lost without the head (positive: it helps)", colour: (j) => (row[shown[j]] < 0 ? ZERO[0] : ZERO[4]) });
  return part("Ablation by class", box);
}
const METHODS = { textspan: "TextSpan", somp: "SOMP", correlation: "correlation" };
function wordsOf() {
  if (!D.words) return part("Words", lacking("descriptions", "No words yet."));
  const lists = D.words[state.head] ?? [];
  return part("Words", lists.length ? el("ul", { class: "words" }, lists.map((w) => el("li", {},
    el("span", { class: "tag" }, `${METHODS[w.method] ?? w.method}${w.component ? ` PC${w.component}` : ""}`), " ", w.words,
    el("small", {}, ` explains ${percent(w.explained, 0)}, coherence z = ${number(w.z_null, 2)}, p = ${number(w.p_null, 2)}, stability ${number(w.stability, 2)}`)))) : el("p", { class: "note" }, "none for this head"));
}
function nearOf(i) {
  const near = D.near?.heads[i];
  if (!near) return part("Nearest heads", lacking("heads", "No similarities."));
  return part("Nearest heads", el("p", { class: "note" }, `By similarity of ${{ direct: "direct shares", cka: "clip geometry (CKA)", subspaces: "subspaces, within the stage", spectra: "spectra" }[D.near.kind]}.`),
    el("div", { class: "pick" }, near.map(([j, v]) => el("button", { onclick: () => set({ head: HEADS[j] }) }, HEADS[j], el("small", {}, ` ${number(v, 2)}`)))));
}
function clusterOf(i) {
  const c = D.clusters;
  if (!c) return null;
  const box = plotBox(220, `Map of the heads' spectra with ${state.head} marked`);
  const cluster = c.cluster[i], count = c.cluster.filter((v) => v === cluster).length;
  plot(box, () => [{ type: "scatter", mode: "markers", x: c.x, y: c.y, customdata: HEADS, hovertemplate: "%{customdata}<extra></extra>",
    marker: { size: HEADS.map((_, j) => (j === i ? 14 : 7)), color: c.cluster.map((v) => (v === cluster ? tone("--accent") : tone("--faint"))), opacity: HEADS.map((_, j) => (j === i ? 1 : 0.6)),
      line: { width: HEADS.map((_, j) => (j === i ? 2.5 : 0)), color: tone("--ink") } } }],
  () => ({ margin: { l: 8, r: 8, t: 4, b: 8 }, xaxis: { showticklabels: false, zeroline: false }, yaxis: { showticklabels: false, zeroline: false } }),
  (node) => node.on("plotly_click", (e) => set({ head: HEADS[e.points[0].pointIndex] })));
  return part("Place among all heads", el("p", { class: "note" }, `Cluster ${cluster} of ${Math.max(...c.cluster)}, with ${count - 1} other heads; map of the spectra by ${c.map.toUpperCase()}.`), box);
}
