// Drawing: the decision map on a canvas beneath Plotly's points, reliability, and the evidence surface.
// Plotly's functions that are used here, newPlot and react with scatter, bar and contour, are the same since its version 1.

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star"];
const STRONGEST = 0.6;  // opacity of the map where a class is certain
const FINE = 400, QUICK = 200;  // pixels of the map along each axis, at rest and in previews
export const MARGIN = { l: 50, r: 12, t: 8, b: 42 };
const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false };

export function ink(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
export function classColour(c) { return ink(`--series-${c % 10}`); }
export function symbol(c) { return SYMBOLS[c % SYMBOLS.length]; }

function layout(box, x, y, more = {}) {
  const axis = {
    gridcolor: ink("--line"), linecolor: ink("--line"), zeroline: false, fixedrange: true, automargin: false, ticks: "",
    title: { standoff: 8 }, tickfont: { size: 11 },
  };
  return {
    width: box.clientWidth, height: box.clientHeight, margin: { ...MARGIN, pad: 0 }, autosize: false,
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, dragmode: false, hovermode: "closest",
    font: { color: ink("--soft"), size: 12, family: getComputedStyle(document.body).fontFamily },
    hoverlabel: { bgcolor: ink("--page"), bordercolor: ink("--line"), font: { color: ink("--ink"), size: 12 } },
    xaxis: { ...axis, ...x, title: { text: x.name || "", standoff: 8, font: { size: 12 } } },
    yaxis: { ...axis, ...y, title: { text: y.name || "", standoff: 6, font: { size: 12 } } },
    ...more,
  };
}

// Plotly reads markup such as <b> and <br> in texts
export function plain(text, longest = 40) {
  const short = text.length > longest ? text.slice(0, longest - 1) + "…" : text;
  return short.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function rgb(colour) {
  const context = document.createElement("canvas").getContext("2d");
  context.fillStyle = colour;
  const hex = context.fillStyle;
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

// probabilities of all classes (C arrays of size²), from thousandths; of two classes only the second one is sent
export function probabilities(map) {
  const second = map.map((values) => Float32Array.from(values, (value) => value / 1000));
  return map.length === 1 ? [second[0].map((value) => 1 - value), second[0]] : second;
}

// paint the most probable class, stronger where it is more certain, with lines where the class changes
export function paintMap(canvas, map, size, preview = false) {
  const side = preview ? QUICK : FINE;
  const p = probabilities(map), C = p.length, colours = p.map((_, c) => rgb(classColour(c))), line = rgb(ink("--ink"));
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d"), image = context.createImageData(side, side), pixels = image.data;
  const top = new Uint8Array(side * side), level = new Uint8Array(side * side), sure = new Float32Array(side * side);
  for (let row = 0; row < side; row++) {
    const v = (1 - row / (side - 1)) * (size - 1), i = Math.min(size - 2, Math.floor(v)), b = v - i;
    for (let column = 0; column < side; column++) {
      const u = (column / (side - 1)) * (size - 1), j = Math.min(size - 2, Math.floor(u)), a = u - j, at = i * size + j;
      const w00 = (1 - a) * (1 - b), w10 = a * (1 - b), w01 = (1 - a) * b, w11 = a * b, k = row * side + column;
      let best = -1, which = 0;
      for (let c = 0; c < C; c++) {
        const q = p[c], value = w00 * q[at] + w10 * q[at + 1] + w01 * q[at + size] + w11 * q[at + size + 1];
        if (value > best) { best = value; which = c; }
      }
      top[k] = which;
      sure[k] = Math.max(0, (best - 1 / C) / (1 - 1 / C));
      level[k] = best > 0.9 ? 1 : 0;
    }
  }
  for (let k = 0; k < top.length; k++) {
    const right = (k + 1) % side ? k + 1 : k, down = k + side < top.length ? k + side : k;
    const border = top[k] !== top[right] || top[k] !== top[down];
    const dots = C === 2 && (level[k] !== level[right] || level[k] !== level[down]) && (((k % side) + Math.floor(k / side)) % 6 < 3);
    const colour = border || dots ? line : colours[top[k]];
    pixels[4 * k] = colour[0];
    pixels[4 * k + 1] = colour[1];
    pixels[4 * k + 2] = colour[2];
    pixels[4 * k + 3] = 255 * (border ? 0.85 : dots ? 0.5 : STRONGEST * sure[k]);
  }
  context.putImageData(image, 0, 0);
}

export function placeCanvas(canvas, box) {
  Object.assign(canvas.style, {
    left: `${MARGIN.l}px`, top: `${MARGIN.t}px`,
    width: `${box.clientWidth - MARGIN.l - MARGIN.r}px`, height: `${box.clientHeight - MARGIN.t - MARGIN.b}px`,
  });
}

// the rows as points; `marks` are the rows in doubt, the neighbours and the selected one
export function drawPoints(plot, box, about, section, marks) {
  const traces = about.classes.map((name, c) => {
    const rows = about.codes.flatMap((code, i) => (code === c ? [i] : []));
    return points(section, rows, about, {
      name: plain(name), hovertemplate: `row %{text}: ${plain(name)}<extra></extra>`, text: rows.map((i) => plain(about.names[i])),
      marker: { color: classColour(c), symbol: symbol(c), size: rows.length > 200 ? 6 : 8, line: { color: ink("--page"), width: 0.8 } },
    });
  });
  const ring = (rows, colour, size, width) => points(section, rows, about, {
    hoverinfo: "skip", marker: { color: "rgba(0,0,0,0)", symbol: "circle", size, line: { color: colour, width } },
  });
  traces.push(ring(marks.doubtful, ink("--poor"), 12, 1.6), ring(marks.neighbours, ink("--ink"), 14, 1.5), ring(marks.selected, ink("--ink"), 19, 3));
  const line = section.y === null;
  const x = { name: plain(section.labels[0], 60), range: [section.low[0], section.high[0]] };
  const y = line ? lineAxis(about) : { name: plain(section.labels[1], 60), range: [section.low[1], section.high[1]] };
  Plotly.react(plot, [...traces, ...(line ? marks.curves || [] : [])], layout(box, x, y), CONFIG);
}

function lineAxis(about) { return { name: "probability", range: [-0.06 * (about.classes.length + 1), 1.03] }; }

function points(section, rows, about, more) {
  const y = (i) => (section.y === null ? -0.06 * (about.codes[i] + 1) : section.y[i]);
  return { type: "scatter", mode: "markers", x: rows.map((i) => section.x[i]), y: rows.map(y), customdata: rows, ...more };
}

// class probabilities along the only input
export function curves(map, size, section) {
  const x = Array.from({ length: size }, (_, i) => section.low[0] + ((section.high[0] - section.low[0]) * i) / (size - 1));
  return probabilities(map).map((p, c) => ({
    type: "scatter", mode: "lines", x, y: Array.from(p), line: { color: classColour(c), width: 2 }, hoverinfo: "skip",
  }));
}

export function drawReliability(plot, box, found, classes, preview) {
  const colour = preview ? ink("--care") : ink("--accent");
  const up = found.high.map((value, i) => value - found.share[i]), down = found.low.map((value, i) => found.share[i] - value);
  const traces = [
    { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { color: ink("--soft"), width: 1, dash: "dot" }, hoverinfo: "skip" },
    {
      type: "scatter", mode: "lines+markers", x: found.x, y: found.share, customdata: found.count, line: { color: colour, width: 1.5 },
      marker: { color: colour, size: 7 }, error_y: { type: "data", array: up, arrayminus: down, color: colour, thickness: 1, width: 3 },
      hovertemplate: "stated %{x:.2f}, came true %{y:.2f}<br>%{customdata} rows<extra></extra>",
    },
    { type: "bar", x: found.x.map((x) => Math.min(9, Math.floor(x * 10 - 1e-9)) / 10 + 0.05), y: found.count, width: 0.085, marker: { color: colour, opacity: 0.45 },
      yaxis: "y2", hovertemplate: "%{y} rows<extra></extra>" },
  ];
  const name = classes.length > 2 ? "stated probability of the top class" : `stated probability of ${plain(classes[1], 20)}`;
  const strip = { domain: [0, 0.16], showgrid: false, zeroline: false, fixedrange: true, showticklabels: false };
  Plotly.react(plot, traces, layout(box, { name, range: [0, 1.01], anchor: "y2" }, { name: "share that came true", range: [-0.02, 1.02], domain: [0.2, 1] }, { yaxis2: strip }), CONFIG);
}

// contours lie close together near the best value: they are uniform in the log of the distance from it
export function drawSurface(plot, box, found) {
  const values = found.z.flat().filter((value) => value !== null), best = Math.max(...values);
  const z = found.z.map((line) => line.map((value) => (value === null ? null : -Math.log10(1 + best - value))));
  let at = [0, 0];
  found.z.forEach((line, i) => line.forEach((value, j) => { if (value === best) at = [j, i]; }));
  const traces = [
    { type: "contour", x: found.x, y: found.y, z, colorscale: "Viridis", showscale: false, connectgaps: false, ncontours: 16,
      line: { width: 0.6, color: "rgba(255,255,255,0.55)" }, hoverinfo: "skip" },
    { type: "scatter", mode: "markers", x: [found.x[at[0]]], y: [found.y[at[1]]], hoverinfo: "skip",
      marker: { symbol: "star", size: 13, color: "#ffffff", line: { color: "#000000", width: 1 } } },
  ];
  const range = (values) => [values[0], values[values.length - 1]];
  Plotly.react(plot, traces, layout(box, { name: "lengthscale ℓ", range: range(found.x), ...ticks(range(found.x)) },
    { name: "scale σ", range: range(found.y), ...ticks(range(found.y)) }), CONFIG);
  return { best, lengthscale: Math.exp(found.x[at[0]]), scale: Math.exp(found.y[at[1]]) };
}

export function emptySurface(plot, box, low, high) {
  Plotly.react(plot, [{ type: "scatter", x: [], y: [] }], layout(box, { name: "lengthscale ℓ", range: [low[0], high[0]], ...ticks([low[0], high[0]]) },
    { name: "scale σ", range: [low[1], high[1]], ...ticks([low[1], high[1]]) }), CONFIG);
}

// ticks at 1, 3, 10, 30, … of an axis of logs
function ticks([low, high]) {
  const values = [];
  for (let power = -6; power <= 6; power++) for (const digit of [1, 3]) values.push(digit * 10 ** power);
  const shown = values.filter((value) => Math.log(value) >= low && Math.log(value) <= high);
  return { tickvals: shown.map(Math.log), ticktext: shown.map((value) => String(Number(value.toPrecision(1)))) };
}
