// Overview: what was looked at, what came out, how to have it again.
views.push({ id: "overview", title: "Overview", build: buildOverview });

function facts(rows) {
  return el("dl", { class: "facts" }, rows.map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
}
function extremes(key, low = false) {
  const m = D.measures.find((one) => one.key === key);
  if (!m) return null;
  const best = m.values.reduce((b, v, i, all) => (v != null && (b < 0 || (low ? v < all[b] : v > all[b])) ? i : b), -1);
  return best < 0 ? null : { head: HEADS[best], value: m.values[best], name: m.name };
}
function keyFigures() {
  const figures = [], a = D.meta.accuracy;
  if (a) figures.push([percent(a.value), `of ${a.clips} clips right, the model as it is`, a.low == null ? a.classifier : `95 % [${fixed(100 * a.low, 1)}, ${fixed(100 * a.high, 1)}], ${a.classifier}`]);
  for (const c of D.comparisons) {
    const best = [...c.rows].sort((p, q) => q.accuracy - p.accuracy)[0];
    const gains = c.rows.find((r) => r.method === "residual");
    for (const r of new Set([gains, best].filter(Boolean)))
      figures.push([percent(r.accuracy), `${r.method}, cross-validated`, `95 % [${fixed(100 * r.low, 1)}, ${fixed(100 * r.high, 1)}], ${r.trained.toLocaleString("en")} trained parameters`]);
  }
  figures.push([String(D.meta.units.heads), "heads", `in ${D.meta.units.blocks} blocks of ${D.meta.units.stages} stage${D.meta.units.stages > 1 ? "s" : ""}`]);
  const apart = extremes("fisher"), needed = extremes("margin_drop");
  if (apart) figures.push([headLink(apart.head), "separates the classes best", `${apart.name} ${number(apart.value)}`]);
  if (needed) figures.push([headLink(needed.head), "matters most when ablated", `${needed.name} ${number(needed.value)}`]);
  return figures;
}
const headLink = (label) => el("button", { class: "link", onclick: () => set({ view: "heads", head: label }) }, label);

function comparisonCard(c) {
  const box = plotBox(70 + 34 * c.rows.length, `Accuracy of methods with 95 % intervals, ${c.name}`);
  const rows = [...c.rows].reverse();
  plot(box, () => [{
    type: "scatter", mode: "markers", x: rows.map((r) => 100 * r.accuracy), y: rows.map((_, i) => i), marker: { size: 10, color: tone("--accent") },
    error_x: { type: "data", symmetric: false, array: rows.map((r) => 100 * (r.high - r.accuracy)), arrayminus: rows.map((r) => 100 * (r.accuracy - r.low)), color: tone("--faint"), thickness: 2, width: 5 },
    customdata: rows.map((r) => `${plain(r.method)}: ${percent(r.accuracy)} [${fixed(100 * r.low, 1)}, ${fixed(100 * r.high, 1)}]`), hovertemplate: "%{customdata}<extra></extra>",
  }], () => ({
    margin: { l: 8, r: 16, t: 8, b: 40 }, xaxis: { title: axisTitle("accuracy, % (bar: 95 % interval over groups of clips)") },
    yaxis: { tickvals: rows.map((_, i) => i), ticktext: rows.map((r) => plain(r.method)), range: [-0.6, rows.length - 0.4], showgrid: false, zeroline: false },
  }));
  const head = ["method", "trained", "accuracy %", "95 %", `difference from ${c.baseline}`, "p (Holm)"];
  const body = c.rows.map((r) => [r.method, r.trained.toLocaleString("en"), `${fixed(100 * r.accuracy, 1)} ± ${fixed(100 * (r.std ?? 0), 1)}`,
    `${fixed(100 * r.low, 1)} – ${fixed(100 * r.high, 1)}`,
    r.difference == null ? "" : `${signed(100 * r.difference)} [${signed(100 * r.difference_low)}, ${signed(100 * r.difference_high)}]`, r.p == null ? "" : r.p < 0.001 ? "< 0.001" : r.p.toFixed(3)]);
  return el("section", { class: "card wide" }, el("h2", {}, "Methods compared"),
    el("p", { class: "note" }, `${c.dataset ? `${c.model} on ${c.dataset}, ${c.clips} clips; ` : ""}same folds for all, every test clip scored once; ± is the standard deviation over folds.${c.baseline === "plain" ? " plain is the model as it is (zero-shot)." : ""}`), box, dataTable(head, body));
}
function dataTable(head, body) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "table" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((h) => el("th", { scope: "col" }, h)))),
    el("tbody", {}, body.map((row) => el("tr", {}, row.map((c, i) => (i ? el("td", {}, c) : el("th", { scope: "row" }, c))))))));
}
function buildOverview(panel) {
  const m = D.meta, mel = m.mel ?? {};
  const stages = D.stages;
  fill(panel,
    el("div", { class: "tiles" }, keyFigures().map(([value, what, note]) => el("div", { class: "tile" }, el("strong", {}, value), el("span", {}, what), el("small", {}, note)))),
    el("div", { class: "columns" },
      el("section", { class: "card" }, el("h2", {}, "Model and data"), facts([
        ["model", `${m.model.name} (${m.model.revision})`], ["data", `${m.dataset.name}, ${m.dataset.classes} classes`],
        ["clips", `${m.dataset.readable} read, ${m.failed} could not be read`], ["on this page", `${D.clips.length} clips, spread over the classes`],
        ["made", `${m.made} UTC, residual-audio ${m.versions["residual-audio"] ?? ""}, torch ${m.versions.torch ?? ""}`]]),
      m.errors.length ? el("details", {}, el("summary", {}, `${m.failed} clips that could not be read`), el("ul", {}, m.errors.map((e) => el("li", {}, `${e.id}: ${e.error}`)))) : null),
      el("section", { class: "card" }, el("h2", {}, "Preprocessing"), facts([...m.preprocessing.filter(([k]) => k !== "fusion"),
        ...(mel.mels ? [["mel", `${mel.mels} bands, ${mel.f_min}–${mel.f_max} Hz, window ${mel.n_fft}, hop ${mel.hop}, ${mel.scale}`]] : [])]))),
    D.comparisons.map(comparisonCard),
    D.comparisons.length ? null : el("section", { class: "card" }, el("h2", {}, "Methods compared"),
      el("p", { class: "lacking" }, "No comparison was given. ", el("code", {}, `residual-audio compare ${m.model.name} ${m.dataset.name} --out COMPARISON`), " makes one; add it with ", el("code", {}, "--compare COMPARISON"), ".")),
    el("section", { class: "card wide" }, el("h2", {}, "Stages"), stages
      ? [el("p", { class: "note" }, "Means over the heads of a stage."),
        dataTable(["stage", "heads", ...stages.columns.map((c) => el("abbr", { title: c.title }, c.name))],
          stages.stage.map((s, i) => [`S${s}`, String(stages.heads[i]), ...stages.columns.map((c) => number(c.values[i]))]))]
      : lacking("heads", "The run has not been analysed.")),
    m.notes.length ? el("section", { class: "card" }, el("h2", {}, "Left out"), m.notes.map((n) => el("p", { class: "note" }, n))) : null,
    el("div", { class: "columns" },
      el("section", { class: "card" }, el("h2", {}, "Run it again"), el("pre", { tabindex: 0 }, D.commands.join("\n"))),
      el("section", { class: "card" }, el("h2", {}, "Cite"), el("ul", {}, m.cite.map((c) => el("li", {}, c))))));
}
