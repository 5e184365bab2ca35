// Long work on the server: queued, running, done, failed or cancelled; shown with its progress and a button to cancel it.
const ENDED = ["done", "failed", "cancelled"];

async function train(box, wanted, opened) {
  const bar = el("progress", { "aria-label": "Training" }), line = el("span", { class: "note", role: "status" }, "asked for");
  let job = null;
  const cancel = el("button", { onclick: () => { cancel.disabled = true; if (job) request(`/api/jobs/${inPath(job.id)}`, { method: "DELETE" }).catch(() => null); } }, "Cancel");
  fill(box, el("div", { class: "job" }, bar, line, cancel));
  try {
    job = await request("jobs", { body: wanted });
    while (!ENDED.includes(job.state)) {
      if (job.total) { bar.max = job.total; bar.value = job.done ?? 0; }
      line.textContent = job.state === "queued" ? `waiting${job.place ? `, ${job.place} before it` : ""}` : job.text || "running";
      await pause(500);
      job = await request(`/api/jobs/${inPath(job.id)}`);
    }
  } catch (error) {
    fill(box, trouble(error));
    return;
  }
  if (job.state === "done") fill(box, trainedBox(job, opened));
  else fill(box, job.state === "cancelled" ? el("p", { class: "note", role: "status" }, "Cancelled: nothing was kept.") : trouble(`Training failed: ${job.error ?? "no reason given"}`));
}
// What training gave: accuracies on clips that it did not learn from, and the way to open it.
function trainedBox(job, opened) {
  const kept = Object.entries(job.held ?? {}).filter(([, v]) => Number.isFinite(v));
  const held = kept.length ? kept : [["before", job.before], ["after", job.after]].filter(([, v]) => Number.isFinite(v));
  return el("div", { class: "trained", "data-adapter": job.name },
    el("p", { role: "status" }, `Adapter ${job.name} is saved.`),
    held.length ? [el("p", { class: "note" }, kept.length ? "Accuracy on clips that were held out of the training:" : "There were too few clips to hold some out. Accuracy on those that said when to stop, which is too good:"),
      el("div", { class: "tiles" }, held.map(([name, value]) => el("div", { class: "tile" }, el("strong", {}, percent(value)), el("span", {}, name))))] : null,
    (job.reasons ?? []).map((r) => el("p", { class: "note" }, String(r))),
    el("div", { class: "pick" }, el("button", { class: "open", onclick: () => opened(job.name) }, `Open ${job.name}`), downloads(job.name)));
}
// The adapter's own files, and the plain checkpoint with its gains folded in.
function downloads(name) {
  const at = `${LIVE.api}/adapters/${inPath(name)}`;
  return [el("a", { class: "button", href: `${at}/adapter.zip`, download: `${name}.zip` }, "Download adapter"),
    el("a", { class: "button", href: `${at}/folded.zip`, download: `${name}-folded.zip` }, "Fold and download model")];
}
