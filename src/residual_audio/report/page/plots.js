// plotly, in the page's own colours. It is loaded after the page's own code, so plots that are asked for before it wait, as do hidden ones.
const drawn = new Map();
let planned = false;
function schedule() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    for (const [node, wanted] of drawn) {
      if (!node.isConnected) drawn.delete(node);
      else if (wanted.due && window.Plotly && node.clientWidth) paint(node, wanted);
    }
  });
}
function plotsReady() {
  for (const wanted of drawn.values()) wanted.due = true;
  schedule();
}
dark.addEventListener("change", () => {
  ZERO = diverging();
  A.shown = null;
  live.repaint?.();
  restore();
  plotsReady();
});
const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// traces and layout are functions, called when the plot is painted, so that colours follow the theme.
function plot(node, traces, layout = () => ({}), after = null) {
  drawn.set(node, { traces, layout, after, due: true });
  schedule();
}
function paint(node, wanted) {
  wanted.due = false;
  const own = wanted.layout();
  const axis = { gridcolor: tone("--line"), zerolinecolor: tone("--faint"), linecolor: tone("--line"), automargin: true, fixedrange: true };
  const layout = {
    font: { family: "system-ui, sans-serif", size: 12, color: tone("--ink") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 48, r: 12, t: 8, b: 40 }, showlegend: false, hovermode: "closest", dragmode: false,
    hoverlabel: { bgcolor: tone("--card"), bordercolor: tone("--faint"), font: { color: tone("--ink") }, align: "left" },
    ...own, xaxis: { ...axis, ...own.xaxis }, yaxis: { ...axis, ...own.yaxis },
  };
  Plotly.react(node, wanted.traces(), layout, { displayModeBar: false, responsive: true });
  if (wanted.after && !node.listening) { node.listening = true; wanted.after(node); }
}
const plotBox = (height, label) => el("div", { class: "plot", style: `height:${height}px`, role: "img", "aria-label": label });
const axisTitle = (text) => ({ text: plain(text), font: { size: 11 } });

// Horizontal bars, the first on top.
function bars(node, names, values, { title = "", unit = "", colour = null } = {}) {
  const order = names.map((_, i) => names.length - 1 - i);
  plot(node, () => [{
    type: "bar", orientation: "h", y: order.map((_, i) => i), x: order.map((i) => values[i]),
    marker: { color: colour ? order.map((i) => colour(i)) : tone("--accent") },
    customdata: order.map((i) => `${plain(names[i])}: ${number(values[i])}${unit}`), hovertemplate: "%{customdata}<extra></extra>",
  }], () => ({
    margin: { l: 8, r: 12, t: 4, b: 36 }, bargap: 0.25, xaxis: { title: axisTitle(title), nticks: 6 },
    yaxis: { tickvals: order.map((_, i) => i), ticktext: order.map((i) => plain(short(names[i], 26))), showgrid: false, zeroline: false, tickfont: { size: 11 } },
  }));
}
