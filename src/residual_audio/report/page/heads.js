// All heads as cells by stage and block; two measures against each other; whoever is searched for or brushed stays bright.
views.push({ id: "heads", title: "Heads", build: buildHeads, update: updateHeads });
const H = {};
const CLASS = "class_activation";

function colours() {
  const own = D.measures.map((m) => [m.key, m.name]);
  if (D.by_class.activation) own.push([CLASS, "class activation"]);
  if (D.ask && state.ask) own.push(["ask", `towards “${short(state.ask, 18)}”`]);
  return own;
}
function measure(key) {
  if (key === CLASS && D.by_class.activation) {
    const c = Math.max(0, D.classes.indexOf(state.of));
    const values = D.by_class.activation.map((row) => row[c] / (row.reduce((a, b) => a + b, 0) / row.length) - 1);
    return { key, name: `activation for ${D.classes[c]}, against the mean of all classes`, help: "mean norm for clips of the class over that of all classes, minus one", kind: "zero", values };
  }
  const asked = key === "ask" && askedText();
  if (asked) return { key, name: `share of the variation towards “${asked.text}”`, help: "see Ask", kind: "zero", values: HEADS.map((h) => asked.share[D.ask.units.indexOf(h)]) };
  return D.measures.find((m) => m.key === key) ?? D.measures.find((m) => m.key === "fisher") ?? D.measures[0] ?? { key: "", name: "no measure", help: "", kind: "up", values: HEADS.map(() => null) };
}
// A grid of buttons: arrow keys move, Enter selects.
function headGrid(label) {
  const grid = el("div", { class: "grid", role: "grid", "aria-label": label });
  const cells = [], rows = [];
  HEADS.forEach((name, i) => {
    const place = `S${D.heads.stage[i]}B${D.heads.block[i]}`;
    if (!rows.length || rows.at(-1).place !== place) {
      const cellsHere = el("div", { class: "cells", role: "presentation" });
      rows.push({ place, cellsHere, list: [] });
      grid.append(el("div", { class: "row", role: "row" }, el("span", { class: "place", role: "rowheader" }, place), cellsHere));
    }
    const cell = el("button", { class: "cell", role: "gridcell", tabindex: -1, "data-head": name, onclick: () => set({ head: name }) });
    rows.at(-1).cellsHere.append(cell);
    rows.at(-1).list.push(cell);
    cells.push(cell);
  });
  grid.style.setProperty("--most", Math.max(...rows.map((r) => r.list.length)));
  grid.addEventListener("keydown", (e) => {
    const row = rows.findIndex((r) => r.list.includes(e.target)), column = rows[row]?.list.indexOf(e.target);
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[e.key];
    if (!step || row < 0) return;
    e.preventDefault();
    const next = rows[clamp(row + step[0], 0, rows.length - 1)].list;
    const target = next[clamp(column + step[1], 0, next.length - 1)];
    for (const c of cells) c.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  });
  const legend = el("div", { class: "legend" });
  return { node: el("div", {}, grid, legend), cells, legend };
}
function paintGrid(grid, m, bright = null) {
  const scale = scaleOf(m.values, m.kind);
  grid.cells.forEach((cell, i) => {
    const v = m.values[i], chosen = HEADS[i] === state.head;
    cell.style.background = v == null ? "" : `rgb(${colourAt(scale, v)})`;
    cell.classList.toggle("empty", v == null);
    cell.classList.toggle("dim", bright !== null && !bright.has(i));
    cell.setAttribute("aria-selected", chosen);
    cell.tabIndex = chosen ? 0 : -1;
    cell.title = `${HEADS[i]} · ${number(v)}`;
    cell.setAttribute("aria-label", `${HEADS[i]}, ${m.name} ${number(v)}`);
  });
  const gradient = scale.stops.map((s, i) => `${s} ${(100 * i) / (scale.stops.length - 1)}%`).join(",");
  const some = m.values.some((v) => v != null);
  fill(grid.legend, some ? [el("span", {}, number(scale.low)), el("i", { style: `background:linear-gradient(90deg,${gradient})` }), el("span", {}, number(scale.high))] : "no values");
}
function brightHeads() {
  const q = state.q.trim().toLowerCase(), range = state.brush ? state.brush.split(",").map(Number) : null;
  if (!q && !state.stage && !range) return null;
  const x = range && measure(state.x || defaultX()).values, y = range && measure(state.y || defaultY()).values;
  return new Set(HEADS.map((_, i) => i).filter((i) => {
    const text = [HEADS[i], ...(D.words?.[HEADS[i]] ?? []).map((w) => w.words)].join(" ").toLowerCase();
    return (!q || q.split(/\s+/).every((part) => text.includes(part))) && (!state.stage || String(D.heads.stage[i]) === state.stage)
      && (!range || (x[i] >= range[0] && x[i] <= range[1] && y[i] >= range[2] && y[i] <= range[3]));
  }));
}
const has = (key) => D.measures.some((m) => m.key === key);
const defaultX = () => (has("twonn") ? "twonn" : D.measures[0]?.key ?? "");
const defaultY = () => (has("margin_drop") ? "margin_drop" : has("fisher") ? "fisher" : defaultX());

function buildHeads(panel) {
  H.grid = headGrid("Heads by stage and block; arrow keys move, Enter selects");
  H.tools = el("div", { class: "tools" });
  H.search = el("input", { type: "search", placeholder: D.words ? "label or word, e.g. S2B1 or bell" : "label, e.g. S2B1", "aria-label": "Search heads", oninput: (e) => set({ q: e.target.value }) });
  H.count = el("span", { class: "note", role: "status" });
  H.help = el("p", { class: "note" });
  H.scatter = plotBox(190, "Two measures of all heads against each other; drag to brush");
  H.axes = el("div", { class: "tools" });
  H.panel = el("section", { class: "card", id: "head", "aria-label": "The chosen head" });
  fill(panel, el("div", { class: "split" },
    el("div", { class: "stays" },
      el("section", { class: "card" }, el("h2", {}, "Head map"), D.measures.length ? null : lacking("heads", "The run has not been analysed."), H.tools, H.help, H.grid.node),
      D.measures.length ? el("section", { class: "card" }, el("h2", {}, "Two measures"), H.axes, H.scatter) : null),
    H.panel));
}
function updateHeads(changed) {
  const m = measure(state.colour), bright = brightHeads();
  const stages = [...new Set(D.heads.stage)];
  if (document.activeElement !== H.search) H.search.value = state.q;
  const typing = document.activeElement === H.search;
  if (!typing) fill(H.tools,
    select("Colour", colours(), m.key, (v) => set({ colour: v })),
    m.key === CLASS ? select("Class", D.classes.map((c) => [c, c]), state.of || D.classes[0], (v) => set({ of: v })) : null,
    stages.length > 1 ? select("Stage", [["", "all"], ...stages.map((s) => [String(s), `S${s}`])], state.stage, (v) => set({ stage: v })) : null,
    el("label", {}, el("span", {}, "Search"), H.search), H.count);
  H.help.textContent = m.help ? `${m.name}: ${m.help}.` : "";
  H.count.textContent = bright ? `${bright.size} of ${HEADS.length} heads` : "";
  paintGrid(H.grid, m, bright);
  if (D.measures.length) scatter(bright);
  if (["head", "pc", "view", "strength", "gains"].some((k) => changed.has(k)) || !H.panel.childElementCount) showHead(H.panel);
}
function scatter(bright) {
  const x = measure(state.x || defaultX()), y = measure(state.y || defaultY());
  fill(H.axes, select("Across", colours(), x.key, (v) => set({ x: v, brush: "" })), select("Up", colours(), y.key, (v) => set({ y: v, brush: "" })),
    state.brush ? el("button", { onclick: () => set({ brush: "" }) }, "Clear brush") : el("span", { class: "note" }, "drag a box to brush, click to select"),
    el("span", { class: "key" }, [...new Set(D.heads.stage)].map((s) => el("span", {}, el("i", { style: `background:${STAGES[s % STAGES.length]}` }), `S${s}`))));
  const now = indexOf[state.head];
  plot(H.scatter, () => [{
    type: "scatter", mode: "markers", x: x.values, y: y.values, customdata: HEADS, hovertemplate: "%{customdata}<br>%{x:.3g}, %{y:.3g}<extra></extra>",
    marker: { size: HEADS.map((_, i) => (i === now ? 13 : 7)), color: D.heads.stage.map((s) => STAGES[s % STAGES.length]), opacity: HEADS.map((_, i) => (bright && !bright.has(i) ? 0.15 : 0.85)),
      line: { width: HEADS.map((_, i) => (i === now ? 2.5 : 0)), color: tone("--ink") } },
  }], () => {
    const r = state.brush ? state.brush.split(",").map(Number) : null;
    return { dragmode: "select", margin: { l: 52, r: 12, t: 8, b: 42 }, xaxis: { title: axisTitle(short(x.name, 44)) }, yaxis: { title: axisTitle(short(y.name, 34)) },
      selections: [], shapes: r ? [{ type: "rect", x0: r[0], x1: r[1], y0: r[2], y1: r[3], line: { color: tone("--accent"), dash: "dot", width: 1.5 } }] : [] };
  }, (node) => {
    node.on("plotly_click", (e) => set({ head: HEADS[e.points[0].pointIndex] }));
    node.on("plotly_selected", (e) => {
      if (e?.range) set({ brush: [...e.range.x, ...e.range.y].map((v) => Number(v.toPrecision(4))).map((v, i, a) => (i % 2 ? Math.max(a[i - 1], v) : Math.min(v, a[i + 1]))).join(",") });
    });
  });
}
