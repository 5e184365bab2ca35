// Tabs, and the start.
for (const view of views) {
  view.waiting = new Set(["view"]);
  view.panel = el("div", { role: "tabpanel", id: view.id, "aria-labelledby": `tab-${view.id}`, hidden: true });
  view.tab = el("button", { role: "tab", id: `tab-${view.id}`, "aria-controls": view.id, onclick: () => { set({ view: view.id }); scrollTo(0, 0); } }, view.title);
  document.getElementById("tabs").append(view.tab);
  document.getElementById("main").append(view.panel);
}
document.getElementById("tabs").addEventListener("keydown", (e) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
  if (!step) return;
  const next = views[(views.findIndex((v) => v.id === state.view) + step + views.length) % views.length];
  set({ view: next.id });
  next.tab.focus();
});
function restore() {
  readAddress();
  refresh(new Set(KEYS));
}
addEventListener("hashchange", restore);
restore();
// The plotting library is large, so the page shows itself first.
addEventListener("load", () => requestAnimationFrame(() => setTimeout(() => {
  const source = document.getElementById("plotly");
  source.replaceWith(el("script", {}, source.textContent));
  plotsReady();
})));
