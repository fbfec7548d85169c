// The page of gpclass explore: controls, the conversation with the server, and what its messages show.
import { MARGIN, classColour, curves, drawPoints, drawReliability, drawSurface, emptySurface, ink, paintMap, placeCanvas } from "./draw.js";

const $ = (id) => document.getElementById(id);
const NAMES = {
  ep: "EP", "nested-ep": "nested EP", laplace: "Laplace", "independent-ep": "independent EP", kl: "KL", vb: "VB", tap: "TAP", "tap-naive": "naive mean field",
  fv: "FV", lr: "label regression", "quadrature-ep": "quadrature EP", "mean-field-probit": "mean-field probit", "variational-mnl": "variational MNL",
};
const OTHER = "other …", PRINCIPAL = "principal components";
const SLIDERS = { lengthscale: "log_lengthscale", scale: "log_scale" };
const named = (engine) => NAMES[engine] || engine;
const many = new Intl.NumberFormat("en");

const state = {
  about: null, setting: null, sliders: null, section: null, frame: null, surface: null, best: null, sent: 0,
  marks: { doubtful: [], neighbours: [], selected: [] }, moving: false, drawn: [], panels: [],
};

// talking with the server ------------------------------------------------------------------------------------------------

const socket = new WebSocket(new URL("socket", location.href).href.replace(/^http/, "ws"));
const handlers = { hello, sliders, section, frame, maps, surface, learning, error: showError, note: showError };
socket.onmessage = (event) => { const message = JSON.parse(event.data); handlers[message.type](message); };
socket.onclose = () => { $("lost").hidden = false; document.body.classList.add("offline"); };
addEventListener("pagehide", () => { socket.onclose = null; });

function tell(message) { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message)); }

// send what has changed: at most once per frame of the display, the newest values only
let waiting = null;
function choose(changes, final = true) {
  Object.assign(state.setting, changes);
  $("error").hidden = true;
  document.body.dataset.asked = state.sent + 1;
  if (waiting) { Object.assign(waiting.setting, changes); waiting.final = final; return; }
  waiting = { type: "set", setting: { ...changes }, final };
  requestAnimationFrame(() => { tell({ ...waiting, id: ++state.sent }); waiting = null; });
}

function showError(message) { $("error").textContent = message.text; $("error").hidden = false; }

// what does not change ---------------------------------------------------------------------------------------------------

function hello(about) {
  state.about = about;
  const { rows, total, columns, classes, counts } = about;
  document.title = `${about.title || "table"} – gpclass explore`;
  $("title").textContent = about.title || "gpclass explore";
  const sample = total > rows ? `a sample of ${many.format(rows)} of ${many.format(total)} rows` : `${many.format(rows)} rows`;
  $("about").textContent = `gpclass explore: ${sample}, ${columns.length} input${columns.length > 1 ? "s" : ""}, ${classes.length} classes`;
  legend();
  fill($("kernel"), [...about.kernels, OTHER]);
  fill($("engine"), Object.keys(about.engines), named);
  if (columns.length > 2) {
    $("planes").hidden = false;
    fill($("across"), [PRINCIPAL, ...columns.keys()], (one) => (one === PRINCIPAL ? one : columns[one]));
    fill($("up"), [...columns.keys()], (one) => columns[one]);
  }
}

function legend() {
  const { classes, counts } = state.about;
  $("legend").replaceChildren(...classes.map((name, c) => {
    const swatch = Object.assign(document.createElement("i"), { className: "swatch" }), item = document.createElement("span");
    swatch.style.background = classColour(c);
    item.append(swatch, `${name} (${many.format(counts[c])})`);
    return item;
  }));
}

function fill(select, values, text = (value) => value) {
  select.replaceChildren(...values.map((value) => Object.assign(document.createElement("option"), { value: String(value), textContent: text(value) })));
}

// controls ---------------------------------------------------------------------------------------------------------------

function sliders(message) {
  state.sliders = message;
  const moving = state.moving, kept = moving ? { log_lengthscale: state.setting.log_lengthscale, log_scale: state.setting.log_scale } : {};
  state.setting = { ...message.setting, ...kept };
  Object.keys(SLIDERS).forEach((id, d) => {
    $(id).min = message.low[d];
    $(id).max = message.high[d];
    $(id).disabled = !message.moves[d];
    $(`${id}-note`).textContent = !message.moves[d] ? `This kernel has no free ${id === "scale" ? "variance" : "lengthscale"}.`
      : message.several[d] ? `geometric mean: all ${id === "scale" ? "variances" : "lengthscales"} move together` : "";
  });
  showChoices();
  showPlace();
}

function showChoices() {
  const { setting, about } = state, known = about.kernels.includes(setting.kernel);
  $("kernel").value = known ? setting.kernel : OTHER;
  $("kernel-other").hidden = known;
  if (!known) $("kernel-text").value = setting.kernel;
  $("engine").value = setting.engine;
  fill($("likelihood"), about.engines[setting.engine]);
  $("likelihood").value = setting.likelihood;
  fill($("other"), ["", ...Object.keys(about.engines).filter((engine) => engine !== setting.engine)], (engine) => (engine ? named(engine) : "nothing"));
  $("other").value = setting.other === setting.engine ? "" : setting.other || "";
  $("calibrate").checked = setting.calibrate;
  $("across").value = setting.plane ? setting.plane[0] : PRINCIPAL;
  if (setting.plane) $("up").value = setting.plane[1];
  $("up").hidden = !setting.plane;
}

function short(value) { return Number(value.toPrecision(3)).toString(); }

// show ℓ and σ of the setting in the sliders and on the surface
function showPlace() {
  const { setting, sliders: { low, high, moves } } = state;
  Object.entries(SLIDERS).forEach(([id, name], d) => {
    $(id).value = setting[name];
    const value = moves[d] ? short(Math.exp(setting[name])) : "–";
    $(`${id}-value`).textContent = value;
    $(id).setAttribute("aria-valuetext", value);
  });
  const share = (name, d) => (setting[name] - low[d]) / (high[d] - low[d]);
  $("here").style.left = `${100 * share("log_lengthscale", 0)}%`;
  $("here").style.top = `${100 * (1 - share("log_scale", 1))}%`;
  $("here").hidden = !(moves[0] && moves[1]);
}

function move(changes, final) {
  const { low, high } = state.sliders;
  Object.values(SLIDERS).forEach((name, d) => { if (name in changes) changes[name] = Math.min(high[d], Math.max(low[d], changes[name])); });
  choose(changes, final);
  state.moving = !final;
  showPlace();
}

for (const [id, name] of Object.entries(SLIDERS)) {
  $(id).addEventListener("input", () => move({ [name]: Number($(id).value) }, false));
  $(id).addEventListener("change", () => move({ [name]: Number($(id).value) }, true));
  $(id).addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 0.05, ArrowUp: 0.05, ArrowLeft: -0.05, ArrowDown: -0.05, PageUp: 0.5, PageDown: -0.5 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    move({ [name]: state.setting[name] + steps[event.key] }, true);
  });
}

$("hit").addEventListener("pointerdown", (event) => { $("hit").setPointerCapture(event.pointerId); fromSurface(event, false); });
$("hit").addEventListener("pointermove", (event) => { if ($("hit").hasPointerCapture(event.pointerId)) fromSurface(event, false); });
$("hit").addEventListener("pointerup", (event) => fromSurface(event, true));
$("hit").addEventListener("keydown", (event) => {
  const steps = { ArrowRight: [0.1, 0], ArrowLeft: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
  if (!(event.key in steps) || !canMoveBoth()) return;
  event.preventDefault();
  const [a, b] = steps[event.key];
  move({ log_lengthscale: state.setting.log_lengthscale + a, log_scale: state.setting.log_scale + b }, true);
});
function canMoveBoth() { return state.sliders && state.sliders.moves.every(Boolean); }
function fromSurface(event, final) {
  if (!canMoveBoth()) return;
  const box = $("hit").getBoundingClientRect(), { low, high } = state.sliders;
  const a = (event.clientX - box.left) / box.width, b = 1 - (event.clientY - box.top) / box.height;
  move({ log_lengthscale: low[0] + a * (high[0] - low[0]), log_scale: low[1] + b * (high[1] - low[1]) }, final);
}

$("kernel").addEventListener("change", () => {
  $("kernel-other").hidden = $("kernel").value !== OTHER;
  if ($("kernel").value !== OTHER) choose({ kernel: $("kernel").value });
  else $("kernel-text").focus();
});
$("kernel-text").addEventListener("change", () => {
  const before = state.setting.kernel;
  choose({ kernel: $("kernel-text").value });
  state.setting.kernel = before;  // until the server has read it
});
$("engine").addEventListener("change", () => {
  const engine = $("engine").value, able = state.about.engines[engine];
  const changes = { engine, likelihood: able.includes(state.setting.likelihood) ? state.setting.likelihood : able[0] };
  if (state.setting.other === engine) changes.other = state.setting.engine;
  choose(changes);
  showChoices();
});
$("likelihood").addEventListener("change", () => choose({ likelihood: $("likelihood").value }));
$("other").addEventListener("change", () => choose({ other: $("other").value || null }));
$("calibrate").addEventListener("change", () => choose({ calibrate: $("calibrate").checked }));
$("across").addEventListener("change", plane);
$("up").addEventListener("change", plane);
function plane(event) {
  if ($("across").value === PRINCIPAL) { choose({ plane: null }); showChoices(); return; }
  let [a, b] = [Number($("across").value), $("up").value === "" ? -1 : Number($("up").value)];
  if (a === b || b < 0) {
    const free = [...state.about.columns.keys()].find((d) => d !== a);
    if (event.target === $("up")) { [a, b] = [free, b]; } else b = free;
  }
  choose({ plane: [a, b] });
  showChoices();
}
$("learn").addEventListener("click", () => tell({ type: "learn" }));
$("reset").addEventListener("click", () => tell({ type: "reset" }));
function learning({ on }) {
  $("learn").disabled = on;
  $("learning").textContent = on ? "searching …" : "";
}

// frames -----------------------------------------------------------------------------------------------------------------

let scheduled = false;
function frame(message) {
  if (message.id < (state.frame ? state.frame.id : 0)) return;
  state.frame = message;
  if (message.final) {
    if (message.doubtful) showDoubtful(message.doubtful);
    showRow(message.row);
    $("code").textContent = message.code;
  }
  if (!scheduled) { scheduled = true; requestAnimationFrame(() => { scheduled = false; show(); }); }
}

function show() {
  const { frame: shown, about } = state;
  if (state.panels.length !== shown.panels.length) makePanels(shown.panels.length);
  shown.panels.forEach((found, k) => showPanel(state.panels[k], found, shown));
  state.drawn = [...state.drawn.filter((time) => time > performance.now() - 2000), performance.now()];
  document.body.dataset.frame = shown.id;
  document.body.dataset.final = shown.final;
  document.body.dataset.drawn = Number(document.body.dataset.drawn || 0) + 1;
  if (shown.final && !shown.panels[0].failed) {
    const { log_evidence, nlpd, name } = shown.panels[0];
    $("said").textContent = `${named(name)}: log evidence ${figure(log_evidence, 2)}, leave-one-out NLPD ${figure(nlpd, 3)}, of ${about.rows} rows`;
  }
}

function makePanels(count) {
  $("panels").classList.toggle("two", count > 1);
  state.panels = Array.from({ length: count }, () => {
    const root = $("panel").content.firstElementChild.cloneNode(true);
    const [map, rel] = ["map", "rel"].map((name) => { const box = root.querySelector(`.${name}`); return { box, plot: box.querySelector(".plot") }; });
    return { root, map, rel, canvas: root.querySelector("canvas"), pointed: "" };
  });
  $("panels").replaceChildren(...state.panels.map((panel) => panel.root));
}

function figure(value, digits) { return value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−"); }

function showPanel(panel, found, shown) {
  const { root } = panel, preview = !shown.final, chip = root.querySelector(".chip");
  root.classList.toggle("preview", preview);
  root.querySelector("h2").textContent = `${named(found.name)}${found.likelihood ? ` with ${found.likelihood}` : ""}`;
  chip.classList.toggle("preview", preview || Boolean(found.failed));
  const some = found.rows < shown.rows ? `${many.format(found.rows)} of ${many.format(shown.rows)} rows` : "rough";
  chip.textContent = found.failed ? "failed" : preview ? `preview: ${some}` : "exact";
  chip.title = preview ? "Shown while values change: computed from fewer rows or to a lower accuracy. Exact figures follow at rest." : "Computed from all rows, to the accuracy of the engine.";
  const told = root.querySelector(".banner");
  told.hidden = !(found.failed || found.complaint);
  told.textContent = found.failed || `The engine did not converge: ${found.complaint}.`;
  if (found.failed) {
    root.querySelectorAll(".tile dd").forEach((dd) => { dd.textContent = "–"; });
    return;
  }
  const texts = { log_evidence: figure(found.log_evidence, 2), nlpd: figure(found.nlpd, 4), error: `${figure(100 * found.error, 1)} %`, ece: figure(found.ece, 3) };
  for (const tile of root.querySelectorAll(".tile")) {
    const name = tile.dataset.figure;
    tile.querySelector("dd").textContent = texts[name];
    if (name === "log_evidence") tile.querySelector("dt").textContent = found.comparable ? "log evidence" : "log evidence (own scale)";
  }
  root.querySelector(".more").textContent = more(found, preview);
  showMap(panel, found, preview);
  panel.reliability = found.reliability;
  drawReliability(panel.rel.plot, panel.rel.box, found.reliability, state.about.classes, preview);
}

function more(found, preview) {
  if (preview) return found.rows < state.about.rows ? "Figures of these rows only; those of all rows follow." : "Exact figures follow.";
  const { nlpd, ece } = found.other, shift = `temperature ${figure(found.temperature, 2)}, noise ${figure(100 * found.noise, 1)} %`;
  return state.setting.calibrate ? `Calibrated (${shift}); before calibration: NLPD ${figure(nlpd, 4)}, calibration error ${figure(ece, 3)}.`
    : `After calibration it would be: NLPD ${figure(nlpd, 4)}, calibration error ${figure(ece, 3)} (${shift}).`;
}

function showMap(panel, found, preview = false) {
  if (!state.section) return;
  panel.shownMap = found;
  const { map } = panel;
  if (state.section.y === null) {
    panel.canvas.hidden = true;
    drawPoints(map.plot, map.box, state.about, state.section, { ...state.marks, curves: curves(found.map, found.size, state.section) });
    listen(panel);
    return;
  }
  placeCanvas(panel.canvas, map.box);
  paintMap(panel.canvas, found.map, found.size, preview);
  showPoints(panel);
}

// points change more rarely than maps
function showPoints(panel, again = false) {
  const { map } = panel, { section, marks } = state;
  const key = JSON.stringify([section.plane, marks, map.box.clientWidth, map.box.clientHeight, ink("--page")]);
  if (key === panel.pointed && !again) return;
  panel.pointed = key;
  panel.root.querySelector(".note").textContent = section.note;
  drawPoints(map.plot, map.box, state.about, section, marks);
  listen(panel);
}

function listen(panel) {
  if (panel.listens) return;
  panel.listens = true;
  panel.map.plot.on("plotly_click", (event) => { if (event.points[0].customdata !== undefined) select(event.points[0].customdata); });
}

function maps(message) {
  if (message.id !== state.frame.id || !state.frame.final) return;
  message.maps.forEach((map, k) => { if (map && state.panels[k]) { Object.assign(state.frame.panels[k], { map, size: message.size }); showMap(state.panels[k], state.frame.panels[k]); } });
  document.body.dataset.fine = message.id;
}

function section(message) {
  state.section = message;
  if (state.frame) state.frame.panels.forEach((_, k) => { if (state.panels[k] && state.section.y !== null) showPoints(state.panels[k]); });
}

// rows -------------------------------------------------------------------------------------------------------------------

function select(row) {
  $("row").value = state.about.names[row];
  if (document.body.dataset.final !== "true") $("details").replaceChildren(paragraph("soft", `Row ${state.about.names[row]} is told as soon as the exact result is there.`));
  choose({ row });
}

$("row").addEventListener("change", () => {
  const text = $("row").value.trim(), { names } = state.about;
  const row = names.findIndex((name) => name === text || name.startsWith(`${text} `));
  if (text && row >= 0) select(row);
  else if (text) $("details").replaceChildren(paragraph("soft", `There is no row ${text} on this page.`));
});

function paragraph(kind, text) { return Object.assign(document.createElement("p"), { className: kind, textContent: text }); }

function showRow(row) {
  if (!row) { state.marks = { ...state.marks, selected: [], neighbours: [] }; return; }
  const { classes, names } = state.about, own = classes[row.label], box = $("details");
  const best = row.loo.indexOf(Math.max(...row.loo));
  const verdict = row.doubtful ? `Its label, ${own}, looks doubtful: given all other rows, ${classes[best]} is more probable.` : `Its label, ${own}, agrees with the other rows.`;
  const bars = row.loo.map((p, c) => {
    const bar = Object.assign(document.createElement("div"), { className: "bar" }), name = document.createElement("span"), fillBar = document.createElement("i"), value = document.createElement("b");
    name.textContent = classes[c];
    name.className = c === row.label ? "own" : "";
    fillBar.style.cssText = `width:${100 * p}%;background:${classColour(c)}`;
    value.textContent = p.toFixed(3);
    bar.append(name, fillBar, value);
    return bar;
  });
  const table = document.createElement("table");
  table.innerHTML = "<thead><tr><th class='text'>nearest rows</th><th class='text'>label</th><th>correlation</th><th>p(label)</th></tr></thead><tbody></tbody>";
  for (const other of row.neighbours) {
    const line = table.tBodies[0].insertRow();
    for (const [text, kind] of [[other.name, "text"], [classes[other.label], "text"], [figure(other.near, 3), ""], [figure(other.p, 3), ""]]) Object.assign(line.insertCell(), { textContent: text, className: kind });
    line.addEventListener("click", () => select(other.row));
  }
  const inputs = row.inputs.map(([name, value]) => `${name} = ${value}`).join(", ");
  box.replaceChildren(
    paragraph(`verdict-line ${row.doubtful ? "poor" : "good"}`, `Row ${row.name}. ${verdict}`),
    paragraph("soft", "Probability of each class, given all other rows:"), ...bars,
    paragraph("soft", `With its own label the model gives ${own} ${row.fitted[row.label].toFixed(3)}. Among the labels of all rows, this is the ${row.rank > 1 ? `${row.rank}${ending(row.rank)} ` : ""}least probable one.`),
    table, paragraph("soft", inputs),
  );
  $("row").value = names[row.row];
  state.marks = { ...state.marks, selected: [row.row], neighbours: row.neighbours.map((other) => other.row) };
  markSelected();
}

function ending(rank) { return rank % 100 > 10 && rank % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][rank % 10] || "th"; }

function showDoubtful({ rows, listed }) {
  state.marks = { ...state.marks, doubtful: rows };
  $("doubt-note").textContent = rows.length ? `${many.format(rows.length)} of ${many.format(state.about.rows)} rows: their label is not the most probable one, given all other rows. Least probable first.`
    : "None: each label is the most probable one, given all other rows.";
  $("doubtful").replaceChildren(...listed.map((found) => {
    const item = document.createElement("div"), texts = [`row ${found.name}`, `${found.label} → ${found.likelier}?`], value = document.createElement("b");
    item.setAttribute("role", "option");
    item.id = `doubt-${found.row}`;
    item.dataset.row = found.row;
    value.textContent = figure(found.p, 3);
    value.title = "Probability of its label, given all other rows";
    item.append(...texts.map((text) => Object.assign(document.createElement("span"), { textContent: text })), value);
    item.addEventListener("click", () => select(found.row));
    return item;
  }));
  markSelected();
}

function markSelected() {
  const [row] = state.marks.selected;
  for (const item of $("doubtful").children) item.setAttribute("aria-selected", Number(item.dataset.row) === row);
  $("doubtful").setAttribute("aria-activedescendant", row !== undefined && $(`doubt-${row}`) ? `doubt-${row}` : "");
}

$("doubtful").addEventListener("keydown", (event) => {
  const items = [...$("doubtful").children], at = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  const to = { ArrowDown: at + 1, ArrowUp: Math.max(0, at - 1), Home: 0, End: items.length - 1 }[event.key];
  if (to === undefined || !items[to]) return;
  event.preventDefault();
  items.forEach((item, i) => item.setAttribute("aria-selected", i === to));
  items[to].scrollIntoView({ block: "nearest" });
  select(Number(items[to].dataset.row));
});

// evidence surface -------------------------------------------------------------------------------------------------------

function surface(message) {
  state.surface = message;
  showSurface();
}

function showSurface() {
  const { surface: found, about, sliders: { low, high } } = state, box = $("surface-box");
  Object.assign($("hit").style, { left: `${MARGIN.l}px`, top: `${MARGIN.t}px`, width: `${box.clientWidth - MARGIN.l - MARGIN.r}px`, height: `${box.clientHeight - MARGIN.t - MARGIN.b}px` });
  if (found.missing) {
    emptySurface($("surface"), box, low, high);
    $("surface-note").textContent = found.missing;
  } else if (!found.z || !found.z.flat().some((value) => value !== null)) {
    emptySurface($("surface"), box, low, high);
    $("surface-note").textContent = "The surface is being computed; click or drag on it all the same.";
  } else {
    const { best, lengthscale, scale } = drawSurface($("surface"), box, found);
    const rows = found.rows < about.rows ? `, from ${many.format(found.rows)} of ${many.format(about.rows)} rows` : "";
    $("surface-note").textContent = `${named(state.setting.engine)}${rows}: best ${figure(best, 1)} at ℓ = ${short(lengthscale)}, σ = ${short(scale)} (star). Click or drag to move.`;
    document.body.dataset.surface = found.done ? "done" : "growing";
  }
}

// copying, colours, sizes ------------------------------------------------------------------------------------------------

$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText($("code").textContent);
    $("copy").textContent = "copied";
  } catch {
    getSelection().selectAllChildren($("code"));
    $("copy").textContent = "selected: press Ctrl-C";
  }
  setTimeout(() => { $("copy").textContent = "copy"; }, 1600);
});

// colours for the dark are in media rules: to switch by hand, these apply always or never
const WISH = "(prefers-color-scheme: dark)";
let dark = matchMedia(WISH).matches;
const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]).filter((rule) => rule instanceof CSSMediaRule && rule.media.mediaText === WISH);
function setTheme(value) {
  dark = value;
  for (const rule of rules) rule.media.mediaText = dark ? "all" : "not all";
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "light" : "dark";
  $("theme").setAttribute("aria-pressed", dark);
  redraw();
}
function redraw() {
  if (!state.about) return;
  legend();
  if (state.surface) showSurface();
  if (state.frame) { show(); showRow(state.frame.row); state.panels.forEach((panel) => state.section && state.section.y !== null && showPoints(panel)); }
}
$("theme").addEventListener("click", () => setTheme(!dark));
matchMedia(WISH).addEventListener("change", (event) => setTheme(event.matches));
setTheme(dark);
let timer = 0;
addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 120); });
