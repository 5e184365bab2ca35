// Labelling by keyboard: one sound at a time; every label is kept on the server at once, as a dataset that a model can be adapted to.
views.push({ id: "label", title: "Label", build: buildLabel, update: updateLabel });
const L = { items: [], at: 0, labels: new Map(), names: [], queue: Promise.resolve(), loaded: null };
const KEYPAD = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];
const datasetNow = () => slug(state.dataset) || "my-labels";

function buildLabel(panel) {
  L.items = D.clips.map((c, i) => [c, i]).filter(([c]) => c.row != null && !c.error).map(([c, i]) => ({ key: `row-${c.row}`, row: c.row, clip: i }));
  L.names = [...D.classes];
  L.stage = el("div", { class: "labeller", tabindex: 0, role: "group", "aria-label": "The sound to label", "aria-describedby": "label-keys" });
  L.choices = el("div", { class: "pick choices" });
  L.count = el("p", { id: "label-count", role: "status" });
  L.said = el("div", {});
  L.strip = el("div", { class: "strip", "aria-label": "All sounds" });
  L.job = el("div", { id: "adapting" });
  L.name = named("Name of the dataset", { id: "dataset-name", list: "datasets", onchange: (e) => { e.target.value = slug(e.target.value); set({ dataset: e.target.value }); } });
  L.other = el("input", { type: "text", id: "label-text", maxlength: LIVE.limits?.label ?? 80, "aria-label": "Another label", placeholder: "another label", autocomplete: "off", list: "label-names",
    onkeydown: (e) => { if (e.key === "Enter" && e.target.value.trim()) { const text = e.target.value.trim(); e.target.value = ""; L.stage.focus(); give(text); } } });
  L.known = el("datalist", { id: "datasets" });
  L.list = el("datalist", { id: "label-names" });
  const adapter = named("Name of the adapter", { id: "label-adapter", placeholder: "from-my-labels" }), epochs = el("input", { type: "number", min: 1, max: 200, value: 20, "aria-label": "Epochs", id: "label-epochs" });
  fill(panel,
    el("section", { class: "card" }, el("h2", {}, `Label ${THING}s`),
      el("div", { class: "tools" }, labelled("Dataset", L.name), L.known, labelled("Another label, then Enter", L.other), L.list),
      el("p", { class: "note", id: "label-keys" }, `Keys: 1 to 9 and 0 label the ${THING} and go on; ← and → move; ${IMAGES ? "" : "Space plays; "}Backspace takes a label off; / types another label.`),
      el("div", { class: "split even" }, L.stage, el("div", {}, L.choices, L.count, L.said)), L.strip,
      el("details", { open: !L.items.length }, el("summary", {}, `Add ${THING}s of your own`), soundZone((sound) => { S.known.set(sound.sound, sound); L.items.push({ key: sound.sound, sound: sound.sound }); L.at = L.items.length - 1; paintLabel(); }, { many: true }))),
    el("section", { class: "card" }, el("h2", {}, "Adapt to these labels"), el("p", { class: "note" }, "Gains are learned from what was labelled. A part of them is held out to say what was gained."),
      el("div", { class: "tools" }, labelled("Name of the adapter", adapter), labelled("Epochs", epochs),
        el("button", { id: "adapt", onclick: async () => {
          adapter.value = slug(adapter.value) || `from-${datasetNow()}`.slice(0, 48);
          await L.queue;
          train(L.job, { name: adapter.value, dataset: datasetNow(), method: "residual", epochs: Number(epochs.value) || 20 }, pickAdapter);
        } }, "Adapt")), L.job));
  request("datasets").then((all) => fill(L.known, all.datasets.map((d) => el("option", { value: d.name })))).catch(() => null);
}
async function updateLabel() {
  if (document.activeElement !== L.name) L.name.value = datasetNow();
  if (L.loaded !== datasetNow()) {
    const wanted = (L.loaded = datasetNow());
    L.labels = new Map();
    // Those that are known first: a dataset that does not exist yet is no error.
    const known = await request("datasets").catch(() => ({ datasets: [] }));
    const rows = known.datasets.some((d) => d.name === wanted) ? await request(`datasets/${inPath(wanted)}`).then((d) => d.rows, () => []) : [];
    if (L.loaded !== wanted) return;
    for (const row of rows) L.labels.set(row.row != null ? `row-${row.row}` : row.key, row.label);
    for (const label of L.labels.values()) if (!L.names.includes(label)) L.names.push(label);
    L.at = Math.max(0, L.items.findIndex((i) => !L.labels.has(i.key)));
  }
  paintLabel();
}
function give(label) {
  const item = L.items[L.at];
  if (!item) return;
  if (label === null) L.labels.delete(item.key); else L.labels.set(item.key, label);
  if (label !== null && !L.names.includes(label)) L.names.push(label);
  const body = { ...(item.row != null ? { row: item.row } : { sound: item.sound }), label }, name = datasetNow();
  // One after the other, so that the server has them in the order in which they were given.
  L.queue = L.queue.then(() => request(`datasets/${inPath(name)}/labels`, { body })).then(
    (kept) => { fill(L.said); L.count.dataset.saved = kept?.clips ?? ""; paintCount(kept); },
    (error) => { L.labels.delete(item.key); fill(L.said, trouble(error)); paintLabel(); });
  if (label !== null) L.at = Math.min(L.items.length - 1, L.at + 1);
  paintLabel();
}
function paintLabel() {
  const item = L.items[L.at], label = item && L.labels.get(item.key), focused = L.stage.contains(document.activeElement);
  fill(L.stage, item ? [soundCard(item.clip != null ? { ...D.clips[item.clip], name: D.clips[item.clip].id } : S.known.get(item.key) ?? {}), el("p", { class: "note" }, `${L.at + 1} of ${L.items.length}`, label ? [": ", el("b", {}, label)] : ": no label yet")]
    : el("p", { class: "lacking" }, `No ${THING}s yet: add some below.`));
  if (focused) L.stage.focus();
  fill(L.choices, L.names.map((name, i) => el("button", { "aria-pressed": String(name === label), onclick: () => give(name) }, i < KEYPAD.length ? el("kbd", {}, KEYPAD[i]) : null, name)),
    label ? el("button", { onclick: () => give(null) }, "Take the label off") : null);
  fill(L.list, L.names.map((n) => el("option", { value: n })));
  fill(L.strip, L.items.map((one, i) => el("button", { class: L.labels.has(one.key) ? "has" : "", "aria-current": i === L.at ? "true" : null, title: L.labels.get(one.key) ?? "no label", "aria-label": `Sound ${i + 1}, ${L.labels.get(one.key) ?? "no label"}`, onclick: () => { L.at = i; paintLabel(); } }, String(i + 1))));
  paintCount();
}
function paintCount() {
  const counts = new Map();
  for (const label of L.labels.values()) counts.set(label, (counts.get(label) ?? 0) + 1);
  L.count.textContent = L.labels.size ? `${L.labels.size} labelled in ${datasetNow()}: ${[...counts].map(([k, n]) => `${k} ${n}`).join(", ")}` : "Nothing labelled yet.";
}
addEventListener("keydown", (e) => {
  if (state.view !== "label" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea, [role=tab]")) return;
  const digit = KEYPAD.indexOf(e.key), move = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
  if (e.key === " " && e.target.closest("button, audio, summary, a")) return;
  if (digit >= 0 && digit < L.names.length) give(L.names[digit]);
  else if (move) { L.at = clamp(L.at + move, 0, L.items.length - 1); paintLabel(); }
  else if (e.key === "Backspace" && L.items[L.at] && L.labels.has(L.items[L.at].key)) give(null);
  else if (e.key === " ") { const player = L.stage.querySelector("audio"); if (player) player.paused ? player.play() : player.pause(); }
  else if (e.key === "/") L.other.focus();
  else return;
  e.preventDefault();
});
