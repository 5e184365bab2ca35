// The server behind a live page: requests, and the rule that only the last question's answer is shown.
const LIVE = D.live;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const THING = IMAGES ? "picture" : "sound";
// Texts that were typed, separated by semicolons; no more and no longer than the server reads.
const textsIn = (typed) => [...new Set(typed.split(";").map((t) => t.trim().slice(0, LIVE.limits?.text ?? 200)).filter(Boolean))].slice(0, LIVE.limits?.texts ?? 16);
const inPath = (text) => encodeURIComponent(text);

async function request(path, { body, method, raw, signal } = {}) {
  const json = body !== undefined;
  const send = () => fetch(path.startsWith("/") ? path : `${LIVE.api}/${path}`, {
    method: method ?? (json || raw ? "POST" : "GET"), signal, body: json ? JSON.stringify(body) : raw,
    headers: json ? { "Content-Type": "application/json" } : raw ? { "Content-Type": "application/octet-stream" } : {},
  }).catch((error) => { throw error.name === "AbortError" ? error : new Error("the server does not answer; is it still running?"); });
  let answer = await send();
  // A server with much to do says when to come back; nothing was done yet, so the same question can be asked again.
  for (let tries = 0; [429, 503].includes(answer.status) && tries < 3 && Number(answer.headers.get("Retry-After")) <= 5; tries++) {
    await pause(1000 * Math.max(1, Number(answer.headers.get("Retry-After"))));
    answer = await send();
  }
  const text = await answer.text();
  let value = null;
  try { value = text ? JSON.parse(text) : null; } catch { /* an error page: its status says enough */ }
  if (!answer.ok) throw new Error(typeof value?.error === "string" ? value.error : `the server answered ${answer.status}`);
  return value;
}
// A function that asks after a pause. A newer question cancels the older one, whose answer is never shown.
function latest(ask, show, fail, wait = 150) {
  let timer = 0, stop = null;
  return (...words) => {
    clearTimeout(timer);
    stop?.abort();
    const mine = (stop = new AbortController());
    timer = setTimeout(async () => {
      try {
        const answer = await ask(mine.signal, ...words);
        if (!mine.signal.aborted) show(answer, ...words);
      } catch (error) {
        if (!mine.signal.aborted) fail(error);
      }
    }, wait);
  };
}
const trouble = (error) => el("p", { class: "lacking", role: "alert" }, String(error.message ?? error));
const busy = (text) => el("p", { class: "note busy", role: "status" }, text);
const slug = (text) => text.trim().toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+/, "").slice(0, 48).replace(/-+$/, "");
const named = (label, attributes = {}) => el("input", { type: "text", autocomplete: "off", spellcheck: "false", maxlength: 48, "aria-label": label, ...attributes });
const labelled = (text, input) => el("label", {}, el("span", {}, text), input);

// How the network is set: an adapter ("-" in the address: none), how much of it, and the sliders that were moved.
const adapterNow = () => (state.adapter === "-" ? null : state.adapter || LIVE.adapter || null);
const settingNow = () => ({ adapter: adapterNow(), strength: state.strength === "" ? 1 : clamp(Number(state.strength) / 100, 0, 1), gains: moved() });
const isPlain = (s) => !s.adapter && !Object.keys(s.gains).length;
const inWords = (s) => (isPlain(s) ? "the model as it is" : [s.adapter ? `adapter ${s.adapter}${s.strength < 1 ? ` at ${percent(s.strength, 0)}` : ""}` : null,
  Object.keys(s.gains).length ? `${Object.keys(s.gains).length} moved gain${Object.keys(s.gains).length > 1 ? "s" : ""}` : null].filter(Boolean).join(", "));
if (LIVE.start) document.querySelector(".made").replaceChildren(el("a", { href: LIVE.start }, "all runs"));
