// Classes and clips: confusion before and after, the clips whose prediction changed.
views.push({ id: "classes", title: "Classes", build: buildClasses, update: updateClasses });
const C = {};

function buildClasses(panel) {
  if (!D.outcomes.length) {
    fill(panel, el("section", { class: "card" }, el("h2", {}, "Classes and clips"), el("p", { class: "lacking" }, "Nothing to compare: give an adapter (", el("code", {}, "--adapter"), "), or a comparison of the same clips (", el("code", {}, "--compare"), ").")),
      el("section", { class: "card" }, el("h2", {}, "Clips on this page"), el("div", { class: "clips many" }, D.clips.slice(0, 24).map((_, i) => clipCard(i)))));
    return;
  }
  C.box = el("div", {});
  fill(panel, C.box);
}
function matrix(chosen, targets) {
  const counts = D.classes.map(() => D.classes.map(() => 0));
  targets.forEach((t, i) => { counts[t][chosen[i]] += 1; });
  return counts;
}
function heat(node, counts) {
  const shares = counts.map((row) => { const n = row.reduce((a, b) => a + b, 0); return row.map((v) => (n ? v / n : 0)); });
  const names = D.classes.map((c) => plain(short(c, innerWidth < 600 ? 14 : 26))), ticks = names.map((_, i) => i), few = names.length <= 24;
  plot(node, () => [{ type: "heatmap", z: shares, zmin: 0, zmax: 1, xgap: 1, ygap: 1, showscale: false, colorscale: [[0, tone("--ground")], [1, tone("--accent")]],
    customdata: counts.map((row, t) => row.map((v, c) => `${v} of ${plain(D.classes[t])}<br>predicted as ${plain(D.classes[c])}`)), hovertemplate: "%{customdata}<extra></extra>" }],
  () => ({ margin: { l: 8, r: 8, t: 4, b: 8 },
    xaxis: { tickvals: few ? ticks : [], ticktext: names, tickangle: -60, tickfont: { size: 10 }, showgrid: false, zeroline: false, title: axisTitle("predicted class") },
    yaxis: { tickvals: few ? ticks : [], ticktext: names, autorange: "reversed", tickfont: { size: 10 }, showgrid: false, zeroline: false, title: few ? undefined : axisTitle("true class") } }));
}
function updateClasses() {
  if (!D.outcomes.length) return;
  const one = D.outcomes.find((o) => o.name === state.set) ?? D.outcomes[0];
  const names = Object.keys(one.methods);
  const before = names.includes(state.before) ? state.before : names[0];
  const after = names.includes(state.after) ? state.after : names.find((n) => n !== before);
  const [a, b] = [one.methods[before], one.methods[after]], n = one.targets.length;
  const right = (chosen) => chosen.filter((c, i) => c === one.targets[i]).length;
  const changed = (fixed) => one.targets.map((_, i) => i).filter((i) => (a[i] === one.targets[i]) === !fixed && (b[i] === one.targets[i]) === fixed);
  const side = Math.min(460, 200 + 24 * D.classes.length);
  const boxes = [before, after].map((m) => plotBox(side, `Confusion of ${m}`));
  heat(boxes[0], matrix(a, one.targets)); heat(boxes[1], matrix(b, one.targets));
  const rows = D.classes.map((c, k) => {
    const members = one.targets.map((_, i) => i).filter((i) => one.targets[i] === k), score = (x) => members.filter((i) => x[i] === k).length / members.length;
    return members.length ? [c, String(members.length), percent(score(a), 0), percent(score(b), 0), signed(100 * (score(b) - score(a)), 0)] : null;
  }).filter(Boolean);
  fill(C.box,
    el("section", { class: "card" }, el("h2", {}, "Before and after"),
      el("div", { class: "tools" }, D.outcomes.length > 1 ? select("Clips", D.outcomes.map((o) => [o.name, o.name]), one.name, (v) => set({ set: v })) : null,
        select("Before", names.map((m) => [m, m]), before, (v) => set({ before: v })), select("After", names.map((m) => [m, m]), after, (v) => set({ after: v }))),
      el("p", { class: "note" }, `${n} clips: ${one.what}.`),
      el("div", { class: "split even" }, [[before, a], [after, b]].map(([m, chosen], i) => el("div", {}, el("h3", {}, `${m}: ${percent(right(chosen) / n)} right`), boxes[i])))),
    sides("Corrected", changed(true), one, a, b), sides("Newly wrong", changed(false), one, a, b),
    el("section", { class: "card" }, el("h2", {}, "Classes"), dataTable(["class", "clips", before, after, "points"], rows)));
}
function sides(title, clips, one, a, b) {
  const sounding = [...clips].sort((p, q) => (one.clips[q] >= 0) - (one.clips[p] >= 0)).slice(0, C.all ? undefined : 12);
  return el("section", { class: "card" }, el("h2", {}, `${title} (${clips.length})`), clips.length ? el("div", { class: "clips many" }, sounding.map((i) => {
    const story = `${D.classes[a[i]]} → ${D.classes[b[i]]}`;
    return one.clips[i] >= 0 ? clipCard(one.clips[i], story) : el("figure", { class: "clip" }, el("figcaption", {}, el("b", {}, D.classes[one.targets[i]]), el("small", {}, one.ids[i]), el("small", {}, story)));
  })) : el("p", { class: "note" }, "none"), clips.length > sounding.length ? el("p", {}, el("button", { onclick: () => { C.all = true; updateClasses(); } }, `Show all ${clips.length}`)) : null);
}
