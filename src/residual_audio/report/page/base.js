"use strict";
// Data, state and small helpers. Labels reach the page only as text nodes or, for plotly, through plain().
const D = JSON.parse(document.getElementById("data").textContent);
const HEADS = D.heads.label;
const indexOf = Object.fromEntries(HEADS.map((label, i) => [label, i]));
const views = [];
const KEYS = ["view", "head", "pc", "colour", "of", "q", "stage", "x", "y", "brush", "ask", "set", "before", "after", "strength", "gains",
  "adapter", "sound", "text", "target", "when", "more", "less", "alpha", "dataset"];
// What a server adds to the page; on a page that opens from disk this stays empty.
const live = {};

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.flat(9).filter((c) => c != null && c !== false));
  return node;
}
const fill = (node, ...children) => node.replaceChildren(...children.flat(9).filter((c) => c != null && c !== false));
const number = (v, digits = 3) => (v == null || Number.isNaN(v) ? "–" : Number(v.toPrecision(digits)).toString().replace("-", "−"));
// Halves away from zero, by the digits that a number is written with: as tables and screens round.
const fixed = (v, digits) => (Math.abs(v) < 1e-6 ? 0 : Math.sign(v) * (Math.round(Number(`${Math.abs(Number(v.toPrecision(12)))}e${digits}`)) / 10 ** digits)).toFixed(digits);
const percent = (v, digits = 1) => (v == null ? "–" : `${fixed(100 * v, digits)} %`);
const signed = (v, digits = 1) => (v == null ? "–" : `${v < 0 ? "−" : "+"}${fixed(Math.abs(v), digits)}`);
const short = (text, length = 22) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
// plotly reads a few tags in labels; escaped, they are text there too.
const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const clamp = (v, low, high) => Math.min(high, Math.max(low, v));

// State lives in the address, so that a view can be shared, and in nothing else.
const state = {};
function readAddress() {
  const address = new URLSearchParams(location.hash.slice(1));
  for (const key of KEYS) state[key] = address.get(key) ?? "";
  if (!views.some((v) => v.id === state.view)) state.view = views[0].id;
  if (!Object.hasOwn(indexOf, state.head)) state.head = firstHead();
  // Numbers that are none would be drawn as such; without them a view opens as it does at first.
  const isNumber = (text) => text.trim() !== "" && Number.isFinite(Number(text));
  for (const key of ["pc", "strength", "alpha"]) if (!isNumber(state[key])) state[key] = "";
  state.gains = state.gains.split(";").filter((one) => isNumber(one.split(":")[1] ?? "")).join(";");
  const box = state.brush.split(",");
  if (box.length !== 4 || !box.every(isNumber)) state.brush = "";
}
function firstHead() {
  const fisher = D.measures.find((m) => m.key === "fisher") ?? D.measures[0];
  return fisher ? HEADS[fisher.values.reduce((best, v, i, all) => (v > (all[best] ?? -Infinity) ? i : best), 0)] : HEADS[0];
}
function set(patch) {
  const changed = Object.keys(patch).filter((key) => state[key] !== String(patch[key]));
  if (!changed.length) return;
  for (const key of changed) state[key] = String(patch[key]);
  const kept = KEYS.filter((key) => state[key] !== "").map((key) => [key, state[key]]);
  history.replaceState(null, "", `#${new URLSearchParams(kept)}`);
  refresh(new Set(changed));
}
function show(view, news) {
  if (!view.built) { view.built = true; view.build(view.panel); }
  view.update?.(news);
}
function refresh(changed) {
  for (const view of views) {
    const open = view.id === state.view;
    view.tab.setAttribute("aria-selected", open);
    view.tab.tabIndex = open ? 0 : -1;
    view.panel.hidden = !open;
    if (open && changed.has("view")) view.tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    for (const key of changed) view.waiting.add(key);
    if (open && view.waiting.size) {
      const news = view.waiting;
      view.waiting = new Set();
      try {
        show(view, news);
      } catch {
        // An address that this page does not understand: the view as it opens at first.
        for (const key of KEYS) if (key !== "view" && key !== "head") state[key] = "";
        view.built = false;
        view.panel.replaceChildren();
        show(view, new Set(KEYS));
      }
    }
  }
  schedule();
}

// Arrays: base64 of little-endian floats, or of int8 steps with one scale for each first index.
function bytes(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}
function unpack(packed) {
  if (!packed) return null;
  if (packed.float) return new Float32Array(bytes(packed.float).buffer);
  const steps = new Int8Array(bytes(packed.int8).buffer), scale = new Float32Array(bytes(packed.scale).buffer);
  const block = steps.length / scale.length;
  return Float32Array.from(steps, (v, i) => v * scale[Math.floor(i / block)]);
}

// Colours: viridis upwards, blue–red about zero; both read on light and dark ground.
const UP = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const diverging = () => (dark.matches ? ["#6db3f2", "#2f6ea5", "#2a3037", "#a8503a", "#ff8a65"] : ["#2166ac", "#92c5de", "#eeeeee", "#f4a582", "#b2182b"]);
let ZERO = diverging();
const HEAT = ["#000004", "#3b0f70", "#8c2981", "#de4968", "#fe9f6d", "#fcfdbf"];
const STAGES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"];
const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
function mix(stops, t) {
  const at = clamp(t, 0, 1) * (stops.length - 1), i = Math.min(stops.length - 2, Math.floor(at));
  const a = parts(stops[i]), b = parts(stops[i + 1]);
  return a.map((v, k) => Math.round(v + (b[k] - v) * (at - i)));
}
function scaleOf(values, kind) {
  const known = values.filter((v) => v != null);
  if (kind === "zero") {
    const most = Math.max(1e-12, ...known.map(Math.abs));
    return { low: -most, high: most, stops: ZERO };
  }
  const low = Math.min(...known), high = Math.max(...known);
  return { low, high: high > low ? high : low + 1e-9, stops: UP };
}
const colourAt = (scale, v) => mix(scale.stops, (v - scale.low) / (scale.high - scale.low));

function lacking(what, text) {
  const command = D.missing[what];
  return el("p", { class: "lacking" }, text, command ? [" To make it: ", el("code", {}, command)] : "");
}
const withoutModel = () => D.meta.notes.length ? D.meta.notes.map((n) => el("p", { class: "lacking" }, n))
  : el("p", { class: "lacking" }, "The page was made without the model (", el("code", {}, "--no-model"), ").");
const select = (label, options, value, onchange) =>
  el("label", {}, el("span", {}, label), el("select", { onchange: (e) => onchange(e.target.value), "aria-label": label },
    options.map(([v, text]) => el("option", { value: v, selected: v === value }, text))));

// A clip: spectrogram and player, or a thumbnail; words. Canvases are drawn when they come into sight.
const IMAGES = D.meta.media === "image";
function picture(values, rows, columns, stops, low, high) {
  const canvas = el("canvas", { width: columns, height: rows, "aria-hidden": "true" });
  const image = new ImageData(columns, rows);
  const ramp = Array.from({ length: 256 }, (_, i) => mix(stops, i / 255));
  for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
    const v = (values[(rows - 1 - r) * columns + c] - low) / (high - low);
    const [red, green, blue] = ramp[Math.round(clamp(v, 0, 1) * 255)];
    image.data.set([red, green, blue, 255], 4 * (r * columns + c));
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
function clipCard(i, ...words) {
  const clip = D.clips[i], [rows, columns] = D.spectrogram;
  const name = D.classes[clip.class];
  return el("figure", { class: "clip" },
    clip.image ? el("img", { src: clip.image, alt: name, loading: "lazy" })
      : clip.spectrogram ? picture(bytes(clip.spectrogram), rows, columns, HEAT, 0, 255)
      : el("p", { class: "lacking" }, clip.error ?? (IMAGES ? "no picture" : "no spectrogram")),
    clip.audio ? el("audio", { controls: true, preload: "none", src: clip.audio, controlslist: "nodownload noplaybackrate", "aria-label": `${name}, ${clip.id}`, onplay: alone }) : null,
    el("figcaption", {}, el("b", {}, name), el("small", { class: "id", title: clip.id }, clip.id), words.map((w) => el("small", {}, w)), live.inside?.(clip)));
}
function alone(event) {
  for (const other of document.querySelectorAll("audio")) if (other !== event.target) other.pause();
}
