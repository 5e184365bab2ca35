// A sound of one's own, or a clip of the run: scores for classes and texts, every unit's exact share, its map, the clips nearest to it.
views.push({ id: "sound", title: IMAGES ? "Picture" : "Sound", build: buildSound, update: updateSound });
const S = { known: new Map(), scores: null, shares: null, maps: null, asked: {} };
const WHEN = { before: "before", after: "after", change: "after − before" };

const textsNow = () => textsIn(state.text);
// What shares and map are about: {text} or {class}; by default the first text, else the best class.
function targetNow() {
  const [kind, ...rest] = state.target.split(":"), name = rest.join(":"), texts = textsNow();
  if (kind === "class" && D.classes.includes(name)) return { class: D.classes.indexOf(name) };
  if (kind === "text" && texts.includes(name)) return { text: name };
  if (texts.length) return { text: texts[0] };
  const scores = S.scores?.before.classes;
  return scores?.length ? { class: scores.indexOf(Math.max(...scores)) } : null;
}
const targetName = (t) => t.text ?? D.classes[t.class];

function buildSound(panel) {
  S.card = el("div", { id: "own-sound" });
  S.scoresBox = el("div", { id: "scores" });
  S.sharesBox = el("div", { id: "shares" });
  S.nearestBox = el("div", { id: "nearest" });
  S.text = el("input", { type: "search", id: "own-text", placeholder: "rain; a dog barking", "aria-label": "Texts to score the sound for, separated by semicolons", autocomplete: "off",
    maxlength: 1000, oninput: (e) => set({ text: e.target.value, target: "" }) });
  const clips = D.clips.map((c, i) => [c, i]).filter(([c]) => c.row != null && !c.error);
  fill(panel, el("section", { class: "card" }, el("h2", {}, `A ${THING}`), el("div", { class: "split even" },
    el("div", {}, soundZone((sound) => { S.known.set(sound.sound, sound); set({ sound: sound.sound, target: "" }); }),
      el("div", { class: "tools" },
        clips.length ? select("Or a clip of the run", [["", "–"], ...clips.map(([c, i]) => [`row-${c.row}`, `${D.classes[D.clips[i].class]}: ${short(c.id, 40)}`])], state.sound, (v) => set({ sound: v, target: "" })) : null,
        adapterBox((name) => set({ adapter: name, gains: "", strength: "" })),
        LIVE.has_text ? el("label", { class: "long" }, el("span", {}, "Any texts, separated by semicolons"), S.text) : el("p", { class: "note" }, "This model has no text side: classes are scored by their centroids."))),
    S.card)), S.scoresBox, S.sharesBox, S.nearestBox, live.explain?.build());
  S.pick = panel.querySelector("select[aria-label='Or a clip of the run']");
}
const soundPath = (what) => `sounds/${inPath(state.sound)}/${what}`;
const askScores = latest((signal, setting) => request(soundPath("scores"), { body: { texts: LIVE.has_text ? textsNow() : [], setting }, signal }),
  (answer) => { S.scores = answer; paintScores(); updateShares(); }, (error) => { S.scores = null; fill(S.scoresBox, el("section", { class: "card" }, trouble(error))); fill(S.sharesBox); fill(S.nearestBox); });
const askShares = latest(async (signal, target, setting) => {
  const [shares, units] = await Promise.all([request(soundPath("shares"), { body: { ...target, setting }, signal }), unitNames()]);
  return { ...shares, units, target };
}, (answer) => { S.shares = answer; paintShares(); live.explain?.update(); }, (error) => fill(S.sharesBox, el("section", { class: "card" }, trouble(error))), 30);
const askMaps = latest((signal, target, setting) => Promise.all([{ adapter: null, strength: 1, gains: {} }, ...(isPlain(setting) ? [] : [setting])].map((s) => request(soundPath("map"), { body: { ...target, units: "all", setting: s }, signal }))),
  (answer) => { S.maps = answer; paintMaps(); }, (error) => S.mapBox && fill(S.mapBox, el("p", { class: "note" }, error.message)), 60);
async function unitNames() {
  S.units ??= LIVE.units ?? D.ask?.units ?? (await request(LIVE.api)).units;
  return S.units;
}
function updateSound(changed) {
  if (document.activeElement !== S.text) S.text.value = state.text;
  if (S.pick) S.pick.value = [...S.pick.options].some((o) => o.value === state.sound) ? state.sound : "";
  if (changed.has("sound") || !S.card.childElementCount) paintSound();
  if (!state.sound) { for (const box of [S.scoresBox, S.sharesBox, S.nearestBox]) fill(box); return live.explain?.update(); }
  const setting = settingNow(), key = JSON.stringify([state.sound, textsNow(), setting]);
  if (S.asked.scores !== key) { S.asked.scores = key; askScores(setting); } else updateShares();
  if (changed.has("head") && S.grid) paintGrid(S.grid, S.measure);
}
function updateShares() {
  const target = targetNow();
  if (!target) return;
  const setting = settingNow(), key = JSON.stringify([state.sound, target, setting]);
  paintScores();
  if (S.asked.shares === key) return S.shares && paintShares();
  S.asked.shares = key;
  askShares(target, setting);
  if (!IMAGES) askMaps(target, setting);
}
async function paintSound() {
  const row = /^row-(\d+)$/.exec(state.sound), here = row ? D.clips.findIndex((c) => c.row === Number(row[1])) : -1, wanted = state.sound;
  if (!wanted) return fill(S.card, el("p", { class: "note" }, `Nothing is kept: a ${THING} stays in the server's memory until others have taken its place, or the server ends.`));
  if (here >= 0) return fill(S.card, clipCard(here));
  try {
    if (!S.known.has(wanted)) S.known.set(wanted, row ? await request(`clips/${row[1]}`) : await request(`sounds/${inPath(wanted)}`));
    if (state.sound === wanted) fill(S.card, soundCard(S.known.get(wanted)));
  } catch (error) { if (state.sound === wanted) fill(S.card, trouble(error)); }
}
function soundCard(sound, ...words) {
  const [rows, columns] = D.spectrogram;
  return el("figure", { class: "clip" }, sound.image ? el("img", { src: sound.image, alt: sound.name ?? THING }) : sound.spectrogram ? picture(bytes(sound.spectrogram), rows, columns, HEAT, 0, 255) : null,
    sound.audio ? el("audio", { controls: true, preload: "metadata", src: sound.audio, "aria-label": sound.name ?? sound.id ?? "the sound", onplay: alone }) : null,
    el("figcaption", {}, el("b", {}, sound.name ?? (sound.class != null ? D.classes[sound.class] : `the ${THING}`)), sound.seconds == null ? null : el("small", {}, `${number(sound.seconds)} s`), words));
}
// Scores as rows that can be chosen: what is chosen is what shares and map are about.
function paintScores() {
  if (!S.scores) return;
  const { before, after } = S.scores, target = targetNow(), all = [...before.classes, ...before.texts, ...(after ? [...after.classes, ...after.texts] : [])];
  const low = Math.min(0, ...all), high = Math.max(1e-9, ...all), part = (v) => 100 * clamp((v - low) / (high - low), 0, 1);
  // Bars stand to the left or right of zero.
  const wide = (v) => `margin-left:${fixed(part(Math.min(0, v)), 1)}%;width:${fixed(part(Math.max(0, v)) - part(Math.min(0, v)), 1)}%`, zero = `--zero:${fixed(part(0), 1)}%`;
  const row = (kind, name, i, own) => el("button", { class: "score", "aria-pressed": String(target && targetName(target) === name && (kind === "text") === (target.text != null)), "data-score": before[own][i], "data-after": after ? after[own][i] : null,
    onclick: () => set({ target: `${kind}:${name}` }) },
    el("span", { class: "name" }, name), el("span", { class: "level", style: zero }, el("i", { style: wide(before[own][i]) }), after ? el("i", { class: "after", style: wide(after[own][i]) }) : null),
    el("span", { class: "value" }, after ? `${number(before[own][i])} → ${number(after[own][i])}` : number(before[own][i])));
  const best = D.classes.map((_, c) => c).sort((a, b) => (after ?? before).classes[b] - (after ?? before).classes[a]), shown = S.all ? best : best.slice(0, 10);
  fill(S.scoresBox, el("section", { class: "card" }, el("h2", {}, "Scores", el("small", {}, ` ${D.ask?.classifier ?? D.equaliser?.classifier ?? "cosines"}`)),
    el("p", { class: "note" }, after ? `Before: the model as it is. After: ${inWords(settingNow())}. Choose a row to see its shares.` : "Choose a row to see its shares. With an adapter or moved gains (Equaliser), scores after stand beside these."),
    textsNow().length ? [el("h3", {}, "Texts"), el("div", { class: "scores" }, textsNow().map((t, i) => (i < before.texts.length ? row("text", t, i, "texts") : null)))] : null,
    best.length ? [el("h3", {}, "Classes"), el("div", { class: "scores" }, shown.map((c) => row("class", D.classes[c], c, "classes")),
      best.length > shown.length ? el("button", { onclick: () => { S.all = true; paintScores(); } }, `Show all ${best.length}`) : null)] : null));
  paintNearest();
}
function paintNearest() {
  const list = (title, near) => near?.length ? el("div", {}, el("h3", {}, title), el("div", { class: "clips many" }, near.map((n) => (n.clip >= 0 ? clipCard(n.clip, `cosine ${number(n.cosine)}`)
    : el("figure", { class: "clip" }, el("figcaption", {}, el("b", {}, typeof n.class === "number" ? D.classes[n.class] : n.class), el("small", { class: "id" }, n.id), el("small", {}, `cosine ${number(n.cosine)}`))))))) : null;
  const { before, after } = S.scores;
  fill(S.nearestBox, before.nearest?.length ? el("section", { class: "card" }, el("h2", {}, "Nearest clips of the run"), after ? [list("before", before.nearest), list("after", after.nearest)] : list("", before.nearest)) : null);
}
function paintShares() {
  const one = S.shares, when = one.after && Object.hasOwn(WHEN, state.when) ? state.when : one.after ? "after" : "before", name = targetName(one.target);
  const values = when === "before" ? one.shares : when === "after" ? one.after.shares : one.shares.map((v, i) => one.after.shares[i] - v);
  const total = (x) => x.shares.reduce((a, b) => a + b, 0), shown = when === "after" ? one.after : one, sum = total(shown);
  S.grid = headGrid(`Heads by their share of the score for ${name}`);
  S.measure = { key: "share", name: "share of the score", kind: "zero", values: HEADS.map((h) => values[one.units.indexOf(h)]) };
  paintGrid(S.grid, S.measure);
  const order = values.map((_, u) => u).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, 12), box = plotBox(60 + 20 * order.length, `Units by their share of the score for ${name}`);
  bars(box, order.map((u) => (one.units[u] === "E" ? "embedding" : one.units[u])), order.map((u) => values[u]), { title: when === "change" ? "change of the share" : "share of the score", colour: (i) => (values[order[i]] < 0 ? ZERO[0] : ZERO[4]) });
  S.mapBox = el("div", { class: "answers" });
  fill(S.sharesBox, el("section", { class: "card", "data-target": name, "data-sum": sum + shown.constant, "data-score": shown.score, "data-when": when },
    el("h2", {}, `What speaks for “${short(name, 60)}”`),
    one.after ? el("div", { class: "tools" }, select("Shares", Object.entries(WHEN), when, (v) => set({ when: v }))) : null,
    el("p", { class: "note" }, when === "change" ? `The score moves from ${number(one.score)} to ${number(one.after.score)}.` : `Exact shares, with norms held: units ${number(sum)}, constant ${number(shown.constant)}, together the score ${number(shown.score)}.`),
    el("div", { class: "split even" }, el("div", {}, el("h3", {}, "Heads"), S.grid.node), el("div", {}, el("h3", {}, "Largest shares, with MLPs"), box)),
    IMAGES ? null : [el("h3", {}, "Where in the sound"), S.mapBox]));
  paintMaps();
  schedule();
}
function paintMaps() {
  if (!S.maps || !S.mapBox) return;
  fill(S.mapBox, S.maps.map((one, i) => el("div", {}, S.maps.length > 1 ? el("h4", {}, i ? "after" : "before") : null, mapPicture(one.map, targetName(S.shares?.target ?? targetNow())))));
}
// From any clip of the run on the page to this view.
live.inside = (clip) => (clip.row == null || clip.error ? null : el("button", { class: "link inside", "aria-label": `Look inside ${clip.id}`, onclick: () => { set({ view: "sound", sound: `row-${clip.row}`, target: "" }); scrollTo(0, 0); } }, "look inside"));
live.repaint = () => { if (S.shares && S.sharesBox) paintShares(); };
