// Steer by words: more of some texts, less of others, no training; what it does to them, to everything else, and what chance would do.
views.push({ id: "steer", title: "Steer", build: buildSteer, update: updateSteer });
const T = { asked: "", answer: null };
const alphaNow = () => (state.alpha === "" ? 1 : clamp(Number(state.alpha), 0, 4));

function buildSteer(panel) {
  const hint = LIVE.has_text ? "any text" : "a class";
  const box = (key, label) => el("input", { type: "search", id: key, placeholder: hint, "aria-label": label, list: LIVE.has_text ? null : "steer-classes", autocomplete: "off", maxlength: 400,
    oninput: (e) => set({ [key]: e.target.value }) });
  T.more = box("more", "More of");
  T.less = box("less", "Less of");
  T.slider = slider("Strength of the steering", alphaNow(), [0, 2], (v) => set({ alpha: v }), { id: "alpha", step: 0.05 });
  T.value = el("output", {}, two(alphaNow()));
  T.result = el("div", { id: "steered" });
  fill(panel, el("section", { class: "card" }, el("h2", {}, "Steer by words"),
    el("p", { class: "note" }, `Nothing is trained: in the units with the largest shares of a text, its axis gets the gain 1 + strength or 1 − strength. Half of the clips choose the units, the other half measure. Several texts: separate them by semicolons.${LIVE.has_text ? "" : " This model has no text side: class centroids stand in for texts."}`),
    el("div", { class: "tools" }, labelled("More of", T.more), labelled("Less of", T.less)),
    el("div", { class: "master" }, el("span", {}, "strength"), T.slider, T.value),
    LIVE.has_text ? null : el("datalist", { id: "steer-classes" }, D.classes.map((c) => el("option", { value: c })))), T.result);
}
const askSteer = latest((signal, wanted) => request("steer", { body: wanted, signal }), (answer) => { T.answer = answer; paintSteer(); }, (error) => { T.answer = null; fill(T.result, el("section", { class: "card" }, trouble(error))); }, 500);

function updateSteer() {
  for (const key of ["more", "less"]) if (document.activeElement !== T[key]) T[key].value = state[key];
  if (document.activeElement !== T.slider) T.slider.value = alphaNow();
  T.value.textContent = two(alphaNow());
  const wanted = { more: textsIn(state.more), less: textsIn(state.less), strength: alphaNow() }, key = JSON.stringify(wanted);
  if (key === T.asked) return;
  T.asked = key;
  if (!wanted.more.length && !wanted.less.length) return fill(T.result);
  if (T.answer) T.result.firstElementChild?.classList.add("waiting");
  else fill(T.result, busy("The network runs with and without the steering …"));
  askSteer(wanted);
}
// Records of any table: names of columns as they come, numbers short.
function records(rows, columns = Object.keys(rows[0] ?? {})) {
  return dataTable(columns.map((c) => c.replaceAll("_", " ")), rows.map((r) => columns.map((c) => (typeof r[c] === "number" ? number(r[c]) : r[c] == null ? "–" : String(r[c])))));
}
function paintSteer() {
  const a = T.answer, name = named("Name of the adapter", { id: "steer-name", placeholder: "more-rain" }), said = el("div", {});
  const asked = a.concepts.filter((c) => c.side !== "other"), others = a.concepts.filter((c) => c.side === "other");
  const shown = [...asked, ...others].slice(0, 24), box = plotBox(70 + 22 * shown.length, "What the steering does to texts");
  const order = shown.map((_, i) => shown.length - 1 - i);
  plot(box, () => [{ type: "scatter", mode: "markers", x: order.map((i) => shown[i].gain), y: order.map((_, k) => k), customdata: order.map((i) => `${plain(shown[i].concept)}: ${number(shown[i].gain)}`), hovertemplate: "%{customdata}<extra></extra>",
    error_x: { type: "data", symmetric: false, array: order.map((i) => (shown[i].high ?? shown[i].gain) - shown[i].gain), arrayminus: order.map((i) => shown[i].gain - (shown[i].low ?? shown[i].gain)), color: tone("--faint"), thickness: 2, width: 4 },
    marker: { size: 10, color: order.map((i) => ({ more: ZERO[4], less: ZERO[0] })[shown[i].side] ?? tone("--faint")) } }],
  () => ({ margin: { l: 8, r: 12, t: 4, b: 40 }, xaxis: { title: axisTitle("gain of the text's scores (1: unchanged; bar: 95 %)") }, shapes: [{ type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, line: { color: tone("--faint"), dash: "dot", width: 1 } }],
    yaxis: { tickvals: order.map((_, k) => k), ticktext: order.map((i) => plain(short(shown[i].concept, 26))), showgrid: false, zeroline: false, tickfont: { size: 11 } } }));
  fill(T.result, el("div", { class: "split even", "data-strength": alphaNow() },
    el("section", { class: "card" }, el("h2", {}, "Texts"), el("p", { class: "note" }, "The texts that were asked for, and the others that change most."), box),
    el("section", { class: "card" }, el("h2", {}, "Against chance"), el("p", { class: "note" }, "target: mean change of the texts asked for, in the wanted sense; others: mean size of the change of all other texts; p: how often chance does as well."),
      a.summary?.length ? records(a.summary, ["model", "target", "others", "difference", "low", "high", "p"]) : null,
      a.after ? el("p", {}, `Accuracy on the page's clips: ${percent(a.before.accuracy)} before, ${percent(a.after.accuracy)} steered.`) : null,
      a.adapter ? el("div", { class: "tools" }, labelled("Name", name), el("button", { id: "steer-save", onclick: () => { name.value = slug(name.value); if (name.value) saveAdapter(name.value, { adapter: a.adapter, strength: 1, gains: {} }, said); else name.focus(); } }, "Save as adapter"),
        el("button", { onclick: () => set({ view: "sound", adapter: a.adapter, gains: "", strength: "" }) }, "Try it on a sound")) : null, said)),
  el("section", { class: "card" }, el("h2", {}, "Units that were turned"), records(a.units, ["label", "text", "side", "share", "alignment"].filter((c) => a.units[0] && c in a.units[0]))));
}
