// The true equaliser: every move runs the network on the server. Also undo and redo, adapters, training from here.
const N = { past: [], future: [], at: 0, answer: null, error: null, asked: "", loaded: LIVE.adapter ?? null, adapters: null, boxes: [] };

const askNetwork = latest((signal, setting) => request("equalise", { body: setting, signal }),
  (answer) => { N.answer = answer; N.error = null; N.shown = N.asked; updateEqualiser(new Set()); },
  (error) => { N.error = error; updateEqualiser(new Set()); });

live.equaliser = {
  update() {
    if (adapterNow() !== N.loaded) return loadKnobs(adapterNow());
    const setting = settingNow(), key = JSON.stringify(setting), snap = JSON.stringify({ gains: state.gains, strength: state.strength });
    remember(snap);
    if (key !== N.asked) { N.asked = key; N.error = null; askNetwork(setting); }
    if (N.adapters && N.painted !== setting.adapter) { N.painted = setting.adapter; paintAdapters(); }
    if (N.which) N.which.textContent = `Now: ${inWords(setting)}.`;
    if (N.undo) { N.undo.disabled = !N.past.length; N.redo.disabled = !N.future.length; }
  },
  tile(tile) {
    const whole = N.answer?.whole, waiting = N.shown !== N.asked;
    const node = tile(whole ? percent(whole.accuracy) : "…", "now, whole network", N.error ? N.error.message : waiting ? "the network runs …" : `margin ${number(whole.margin)}; ${N.answer.clips} clips`, `network${waiting ? " waiting" : ""}`);
    if (!waiting && !N.error) node.dataset.network = whole.accuracy;
    return node;
  },
  traces(trace) {
    return N.answer && N.shown === N.asked ? [trace({ byClass: N.answer.whole.by_class }, "network", STAGES[4], "diamond")] : [];
  },
  steps() {
    N.undo = el("button", { id: "undo", disabled: true, title: "Ctrl+Z", onclick: () => step(N.past, N.future) }, "Undo");
    N.redo = el("button", { id: "redo", disabled: true, title: "Ctrl+Shift+Z", onclick: () => step(N.future, N.past) }, "Redo");
    return [N.undo, N.redo];
  },
  card() {
    N.which = el("p", { class: "note" });
    N.said = el("div", { id: "adapter-said" });
    N.job = el("div", { id: "training" });
    const name = named("Name of the adapter", { placeholder: "my-adapter", id: "adapter-name" });
    const epochs = el("input", { type: "number", min: 1, max: 200, value: 20, "aria-label": "Epochs", id: "epochs" });
    const method = LIVE.methods?.length > 1 ? select("Method", LIVE.methods.map((m) => [m, m]), "residual", (v) => { N.method = v; }) : null;
    const chosen = () => { const value = slug(name.value); name.value = value; if (!value) { fill(N.said, trouble("Give the adapter a name first.")); name.focus(); } return value; };
    const learn = (setting) => { const value = chosen(); if (value) train(N.job, { name: value, dataset: null, method: N.method ?? "residual", epochs: Number(epochs.value) || 20, setting }, pickAdapter); };
    return el("section", { class: "card" }, el("h2", {}, "This setting"), N.which, adapterBox(pickAdapter, true),
      el("div", { class: "tools" }, labelled("Name", name),
        el("button", { id: "save-adapter", onclick: () => { const value = chosen(); if (value) saveAdapter(value, settingNow(), N.said); } }, "Save as adapter"),
        method, labelled("Epochs", epochs),
        el("button", { id: "train-here", onclick: () => learn(settingNow()) }, "Train from here"),
        el("button", { id: "train", onclick: () => learn(null) }, "Train anew")),
      el("p", { class: "note" }, "Saving keeps the adapter with its strength and your moves. Training learns from the clips of the run: from here, it begins with this setting; anew, with gains of one."), N.said, N.job);
  },
};
// A choice among the adapters of the server, wherever one is made; all of them are kept up to date.
function adapterBox(picked, files = false) {
  const node = el("div", { class: "tools" });
  N.boxes = [...N.boxes.filter((b) => b.node.isConnected), { node, picked, files }];
  if (N.adapters) paintAdapters(); else listAdapters();
  return node;
}
async function listAdapters() {
  try {
    N.adapters = (await request("adapters")).adapters;
    paintAdapters();
  } catch (error) { for (const { node } of N.boxes) fill(node, trouble(error)); }
}
function paintAdapters() {
  const now = adapterNow(), known = N.adapters.map((a) => [a.name, `${a.name}${a.numbers ? `, ${a.numbers.toLocaleString("en")} numbers` : ""}`]);
  const all = [["-", "none: the model as it is"], ...known, ...(now && !known.some(([name]) => name === now) ? [[now, `${now}, not saved`]] : [])];
  for (const { node, picked, files } of N.boxes) {
    const held = node.contains(document.activeElement) && document.activeElement.tagName === "SELECT";
    fill(node, select("Adapter", all, now ?? "-", picked), files && now && known.some(([name]) => name === now) ? downloads(now) : null);
    if (held) node.querySelector("select").focus();
  }
}
async function saveAdapter(name, setting, box) {
  try {
    await request("adapters", { body: { name, setting } });
    fill(box, el("p", { role: "status" }, `Saved ${name}. `), el("div", { class: "pick" }, el("button", { onclick: () => pickAdapter(name) }, `Open ${name}`), downloads(name)));
    listAdapters();
  } catch (error) { fill(box, trouble(error)); }
}
function pickAdapter(name) {
  listAdapters();
  set({ view: D.equaliser ? "equaliser" : "sound", adapter: name, gains: "", strength: "" });
}
// Another adapter has other axes: its sliders are fetched, and the view is built anew.
async function loadKnobs(name) {
  if (N.loading === name) return;
  N.loading = name;
  try {
    const found = await request(`equaliser${name ? `?adapter=${inPath(name)}` : ""}`);
    Object.assign(D, { equaliser: found.equaliser });
    D.meta.model_notes = found.notes ?? [];
    Object.assign(N, { loaded: name, past: [], future: [], now: null, answer: null, shown: null, asked: "" });
    const view = views.find((v) => v.id === "equaliser");
    view.built = false;
    refresh(new Set(KEYS));
  } catch (error) {
    fill(N.said, trouble(error));
    N.loaded = name;
  } finally { N.loading = undefined; }
}
// One step back is one drag: moves that follow each other quickly are one.
function remember(snap) {
  if (N.now == null || N.now === snap) { N.now = snap; return; }
  if (!N.stepping && Date.now() - N.at > 500) N.past.push(N.now);
  if (!N.stepping) N.future.length = 0;
  N.now = snap;
  N.at = N.stepping ? 0 : Date.now();
}
function step(from, to) {
  if (!from.length) return;
  const held = document.activeElement, label = held?.type === "range" ? held.getAttribute("aria-label") : null;
  if (label) held.blur();
  to.push(N.now);
  N.stepping = true;
  set(JSON.parse(from.pop()));
  N.stepping = false;
  if (label) document.querySelector(`#equaliser input[aria-label="${CSS.escape(label)}"]`)?.focus();
  N.undo.disabled = !N.past.length;
  N.redo.disabled = !N.future.length;
}
addEventListener("keydown", (e) => {
  if (state.view !== "equaliser" || !(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== "z" || ["text", "search"].includes(e.target.type)) return;
  e.preventDefault();
  e.shiftKey ? step(N.future, N.past) : step(N.past, N.future);
});
