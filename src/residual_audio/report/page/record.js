// Sounds from a file or the microphone. What is recorded becomes a mono WAV here, since servers do not read what browsers record.
function wavOf(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const words = (at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  words(0, "RIFF"); view.setUint32(4, 36 + 2 * samples.length, true); words(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  words(36, "data"); view.setUint32(40, 2 * samples.length, true);
  samples.forEach((v, i) => view.setInt16(44 + 2 * i, Math.round(clamp(v, -1, 1) * 32767), true));
  return new Blob([view], { type: "audio/wav" });
}
async function asWav(recorded) {
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(await recorded.arrayBuffer());
    const mono = new Float32Array(sound.length);
    for (let c = 0; c < sound.numberOfChannels; c++) sound.getChannelData(c).forEach((v, i) => { mono[i] += v / sound.numberOfChannels; });
    return wavOf(mono, sound.sampleRate);
  } finally { context.close(); }
}
// A zone that takes files and recordings; each becomes a sound on the server and is handed to `taken`.
function soundZone(taken, { many = false } = {}) {
  const said = el("div", { role: "status" });
  const upload = async (blob, name) => {
    if (blob.size > (LIVE.limits?.bytes ?? Infinity)) throw new Error(`${name}: ${number(blob.size / 1e6)} MB is more than this server takes (${number(LIVE.limits.bytes / 1e6)} MB)`);
    return { ...(await request("sounds", { raw: blob })), name };
  };
  const take = async (files) => {
    const problems = [];
    for (const file of many ? files : files.slice(0, 1)) {
      fill(said, busy(`${short(file.name, 40)} is being read …`), problems.map(trouble));
      try { taken(await upload(file, file.name)); } catch (error) { problems.push(error); }
    }
    fill(said, problems.map(trouble));
  };
  const input = el("input", { type: "file", accept: IMAGES ? "image/*" : "audio/*,.wav,.flac,.ogg,.mp3", multiple: many, "aria-label": many ? `Files of ${THING}s` : `A file of a ${THING}`, onchange: () => { take([...input.files]); input.value = ""; } });
  const record = !IMAGES && navigator.mediaDevices?.getUserMedia && window.MediaRecorder ? el("button", { class: "record", "aria-pressed": "false", onclick: () => (recorder ? recorder.stop() : begin()) }, "Record") : null;
  let recorder = null;
  async function begin() {
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true }), pieces = [];
      recorder = new MediaRecorder(stream);
      recorder.ondataavailable = (e) => pieces.push(e.data);
      const limit = setTimeout(() => recorder?.stop(), 1000 * Math.min(30, LIVE.limits?.seconds ?? 30));
      recorder.onstop = async () => {
        clearTimeout(limit);
        stream.getTracks().forEach((t) => t.stop());
        recorder = null;
        record.textContent = "Record";
        record.setAttribute("aria-pressed", "false");
        try { await take([new File([await asWav(new Blob(pieces))], "recording.wav")]); } catch (error) { fill(said, trouble(error)); }
      };
      recorder.start();
      record.textContent = "Stop";
      record.setAttribute("aria-pressed", "true");
    } catch (error) { fill(said, trouble(`No recording: ${error.message}`)); }
  }
  const zone = el("div", { class: "drop" }, el("p", {}, `Drop ${many ? `${THING}s` : `a ${THING}`} here${record ? ", pick a file, or record" : " or pick a file"}.`), el("div", { class: "pick" }, input, record), said);
  const over = (on) => (e) => { e.preventDefault(); zone.classList.toggle("over", on); };
  zone.addEventListener("dragover", over(true));
  zone.addEventListener("dragleave", over(false));
  zone.addEventListener("drop", (e) => { over(false)(e); const files = [...(e.dataTransfer?.files ?? [])]; if (files.length) take(files); });
  return zone;
}
// A sound that was dropped beside the zone must not replace the page.
for (const kind of ["dragover", "drop"]) addEventListener(kind, (e) => e.preventDefault());
