"use strict";
// Draws the chart and the table of page.html from the figures in it. Accuracies are fractions, memory is bytes.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
// The address remembers the switches, so that a view can be sent to somebody.
const asked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const start = { ...data.start, sort: "score", descending: true };
const isTrue = (key) => (key in asked ? asked[key] === "true" : start[key]);
const state = { ...start, ...asked, log: isTrue("log"), descending: isTrue("descending") };

// ---- figures

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function deviation(values) {
  if (values.length < 2) return null;
  const middle = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}

// Accuracies of one row on one task by seed, of the seeds that are switched on.
function accuracies(row, task) {
  const seeds = row.tasks[task] ? row.tasks[task].seeds : {};
  return Object.fromEntries(Object.entries(seeds).filter(([seed]) => state.seed === "all" || seed === state.seed));
}

function taskMean(row, task) {
  const values = Object.values(accuracies(row, task));
  return values.length ? mean(values) : null;
}

// Missing if one task is missing; a failed Path-X counts as 0.5 in a mean of several, as in the papers.
function score(row, tasks) {
  const values = tasks.map((task) => (tasks.length > 1 && row.tasks[task]?.failed ? 0.5 : taskMean(row, task)));
  return tasks.length && values.every((value) => value !== null) ? mean(values) : null;
}

function scoreDeviation(row, tasks) {
  const byTask = tasks.map((task) => accuracies(row, task));
  const shared = Object.keys(byTask[0] || {}).filter((seed) => byTask.every((seeds) => seed in seeds));
  return deviation(shared.map((seed) => mean(byTask.map((seeds) => seeds[seed]))));
}

const marks = (row, tasks) => [...new Set(tasks.flatMap((task) => [...(row.tasks[task]?.mark || "")]))].sort().join("");
const rowsNow = () => data.presets.find((preset) => preset.name === state.preset).rows;
const tasksNow = () => data.choices[state.task] || [state.task];
const workOf = (cell) => `${cell.length}/${cell.batch_size}/${cell.precision}`;
const cellsOf = (row) => (row.cells[state.hardware] || []).filter((cell) => cell.mode === state.mode);
const cellOf = (row) => cellsOf(row).find((cell) => workOf(cell) === state.work);

// One source of memory for all circles: the most exact that all know, else what most know.
function memorySource(cells) {
  const counts = data.memory.map(([source]) => cells.filter((cell) => cell.peak_bytes[source]).length);
  const best = Math.max(0, ...counts);
  return best ? data.memory[counts.indexOf(best)][0] : null;
}

function view() {
  const tasks = tasksNow();
  const entries = rowsNow().map((row) => ({ row, cell: cellOf(row), score: score(row, tasks) }));
  const drawn = entries.filter((e) => e.score !== null && e.cell && e.cell.sequences_per_second && !e.cell.simulated);
  const source = memorySource(drawn.map((e) => e.cell));
  for (const e of entries) {
    e.memory = (source && e.cell && e.cell.peak_bytes[source]) || null;
    e.deviation = scoreDeviation(e.row, tasks);
    e.speed = e.cell && !e.cell.simulated ? e.cell.sequences_per_second : null;
    if (e.score === null) e.reason = "no score for " + tasks.filter((t) => taskMean(e.row, t) === null)
      .map((t) => `${title(t)} (${e.row.tasks[t] ? e.row.tasks[t].trouble || "not with this seed" : "not run"})`).join(", ");
    else if (!e.cell) e.reason = "not measured on this work";
    else if (e.cell.simulated) e.reason = "simulated: a mask over a dense matrix, so its speed says nothing";
    else if (!e.speed) e.reason = e.cell.status.replaceAll("_", " ");
  }
  const reference = entries.find((e) => e.row.reference) || null;
  return { tasks, entries, drawn, source, reference };
}

// ---- words

const title = (task) => data.titles[task] || task;
const percent = (value) => (value === null ? "–" : (100 * value).toFixed(1));
const number = (value) => (value === null ? "–" : value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3))));
const memory = (value) => (value === null ? "–" : value >= 1e9 ? `${number(value / 1e9)} GB` : `${number(value / 1e6)} MB`);
const seconds = (value) => (value === null ? "–" : value >= 1 ? `${number(value)} s` : `${number(1000 * value)} ms`);
const spread = (value) => (value === null ? "" : ` ± ${percent(value)}`);
const times = (value, base) => (value && base ? `${number(value / base)}x` : "–");

function scoreName(tasks) {
  if (state.task === "five") return "LRA score (mean accuracy of the five tasks)";
  return (tasks.length > 1 ? "Mean accuracy on " : "Accuracy on ") + tasks.map(title).join(", ");
}

function details(e, v) {
  const lines = [e.row.label === e.row.key ? e.row.label : `${e.row.label} (${e.row.key})`, `${data.families[e.row.family].words}`];
  if (v.tasks.length > 1) lines.push(`Mean: ${percent(e.score)}${spread(e.deviation)} %`);
  for (const task of v.tasks) {
    const found = e.row.tasks[task];
    const values = Object.values(accuracies(e.row, task));
    if (!found || !values.length) continue;
    const interval = state.seed === "all" && found.interval ? `, 95 %: ${percent(found.interval[0])} to ${percent(found.interval[1])}` : "";
    const failed = found.failed ? " (not clear of chance)" : "";
    const count = `${values.length} seed${values.length > 1 ? "s" : ""}`;
    lines.push(`${title(task)}: ${percent(mean(values))}${spread(deviation(values))}${found.mark} %${failed}, ${count}${interval}`);
    if (found.trouble) lines.push(`   without a score: ${found.trouble}`);
  }
  const cell = e.cell;
  lines.push(`Speed: ${number(cell.sequences_per_second)} sequences/s, step ${seconds(cell.step_seconds)}` +
    (cell.spread ? ` (${seconds(cell.spread[0])} to ${seconds(cell.spread[1])})` : ""));
  for (const [source, words] of data.memory) if (cell.peak_bytes[source]) lines.push(`Memory ${words}: ${memory(cell.peak_bytes[source])}`);
  if (v.reference && v.reference.cell && !e.row.reference)
    lines.push(`Against the Transformer: ${times(e.speed, v.reference.speed)} speed, ${times(e.memory, v.reference.memory)} memory`);
  if (e.row.parameters[1]) lines.push(`Parameters: ${[...new Set(e.row.parameters)].map((n) => n.toLocaleString("en")).join(" to ")}` +
    (e.row.within_lra_rule === false ? " (outside the 10 % rule)" : ""));
  return lines.join("\n");
}

// ---- chart

const FRAME = { left: 62, right: 1046, top: 14, bottom: 520 };
const SHAPES = {
  "o": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "s": "M-3.6-3.6h7.2v7.2h-7.2z", "D": "M0-5L5 0L0 5L-5 0z",
  "^": "M0-4.6L4.4 3.4H-4.4z", "v": "M0 4.6L4.4-3.4H-4.4z",
  "P": "M-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z", "X": "M-4.4-2.2L-2.2-4.4L0-2.2L2.2-4.4L4.4-2.2L2.2 0L4.4 2.2L2.2 4.4L0 2.2L-2.2 4.4L-4.4 2.2L-2.2 0z",
  "*": "M0-5.5L1.4-1.8L5.2-1.7L2.2.7L3.2 4.5L0 2.3L-3.2 4.5L-2.2.7L-5.2-1.7L-1.4-1.8z",
  "h": "M0-4.8L4.2-2.4V2.4L0 4.8L-4.2 2.4V-2.4z", "p": "M0-4.8L4.6-1.5L2.8 3.9H-2.8L-4.6-1.5z",
};

function draw(tag, attributes, parent, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// Ends of an axis on which every value keeps its room (pixels) before and after it.
function limits(low, high, before, after, length) {
  let first = Math.min(...low), last = Math.max(...high);
  if (last - first < 1e-6 * Math.max(Math.abs(last), 1)) {
    first -= 0.05 * Math.max(Math.abs(first), 1);
    last += 0.05 * Math.max(Math.abs(last), 1);
  }
  let start = first, end = last;
  for (let i = 0; i < 30; i++) {
    const scale = (end - start) / length;
    start = Math.min(first, ...low.map((value, j) => value - before[j] * scale));
    end = Math.max(last, ...high.map((value, j) => value + after[j] * scale));
  }
  return [start, end];
}

function ticks(low, high) {
  const rough = (high - low) / 7, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(low); power <= high; power++)
    for (const m of [1, 1.5, 2, 3, 5, 7]) if (Math.log10(m) + power >= low && Math.log10(m) + power <= high) found.push(m * 10 ** power);
  return found;
}

function chart(v) {
  const svg = $("chart");
  svg.replaceChildren();
  const shown = v.drawn;
  if (!shown.length) {
    draw("text", { x: 530, y: 260, "text-anchor": "middle" }, svg, "Nothing has both a score and a speed under these switches.");
    return;
  }
  const most = Math.max(...shown.map((e) => e.memory || 0));
  const shares = shown.map((e) => (most ? (e.memory || 0) / most : 0));
  const total = shares.reduce((sum, share) => sum + share, 0);
  const largest = Math.min(62, Math.sqrt((0.1 * (FRAME.right - FRAME.left) * (FRAME.bottom - FRAME.top)) / (Math.PI * (total || 1))));
  const radii = shares.map((share) => largest * Math.sqrt(share));
  const room = radii.map((radius) => Math.max(radius, 6) + 12);
  const u = (speed) => (state.log ? Math.log10(speed) : speed);
  const wide = room.map((pixels) => pixels + 50); // for the names
  const x = limits(shown.map((e) => u(e.speed)), shown.map((e) => u(e.speed)), room, wide, FRAME.right - FRAME.left);
  const y = limits(shown.map((e) => 100 * (e.score - (e.deviation || 0))), shown.map((e) => 100 * (e.score + (e.deviation || 0))),
    room, room, FRAME.bottom - FRAME.top);
  const toX = (speed) => FRAME.left + ((u(speed) - x[0]) / (x[1] - x[0])) * (FRAME.right - FRAME.left);
  const toY = (share) => FRAME.bottom - ((100 * share - y[0]) / (y[1] - y[0])) * (FRAME.bottom - FRAME.top);
  axes(svg, x, y, toX, toY, v);
  const lines = []; // boxes that labels keep off where they can
  if (v.reference && shown.includes(v.reference)) {
    const [middleX, middleY] = [toX(v.reference.speed), toY(v.reference.score)];
    lines.push([middleX, FRAME.top, middleX, FRAME.bottom], [FRAME.left, middleY, FRAME.right, middleY]);
    const dashes = { stroke: "#8a8a8a", "stroke-dasharray": "6 5", "stroke-width": 1 };
    draw("line", { x1: middleX, x2: middleX, y1: FRAME.top, y2: FRAME.bottom, ...dashes }, svg);
    draw("line", { x1: FRAME.left, x2: FRAME.right, y1: middleY, y2: middleY, ...dashes }, svg);
  }
  lines.push(...front(svg, shown, toX, toY));
  for (const e of shown) if (e.deviation) lines.push([toX(e.speed) - 3, toY(e.score + e.deviation), toX(e.speed) + 3, toY(e.score - e.deviation)]);
  const places = shown.map((e, i) => ({ e, x: toX(e.speed), y: toY(e.score), r: radii[i] }));
  for (const place of [...places].sort((a, b) => b.r - a.r)) bubble(svg, place, v);
  for (const place of places) middle(svg, place, toY);
  names(svg, places, lines, v);
  legend(svg, shown, largest, most);
}

function axes(svg, x, y, toX, toY, v) {
  const grid = { stroke: "#e6e6e6" };
  for (const tick of state.log ? logTicks(...x) : ticks(...x)) {
    draw("line", { x1: toX(tick), x2: toX(tick), y1: FRAME.top, y2: FRAME.bottom, ...grid }, svg);
    draw("text", { x: toX(tick), y: FRAME.bottom + 16, "text-anchor": "middle", class: "tick" }, svg, number(tick));
  }
  for (const tick of ticks(...y)) {
    draw("line", { x1: FRAME.left, x2: FRAME.right, y1: toY(tick / 100), y2: toY(tick / 100), ...grid }, svg);
    draw("text", { x: FRAME.left - 7, y: toY(tick / 100) + 4, "text-anchor": "end", class: "tick" }, svg, String(tick));
  }
  draw("path", { d: `M${FRAME.left} ${FRAME.top}V${FRAME.bottom}H${FRAME.right}`, stroke: "#8a8a8a", fill: "none" }, svg);
  const mode = `Sequences per second in ${data.modes[state.mode]} (${state.log ? "logarithmic; " : ""}the further right, the faster)`;
  draw("text", { x: (FRAME.left + FRAME.right) / 2, y: FRAME.bottom + 38, "text-anchor": "middle", class: "axis" }, svg, mode);
  const words = v.tasks.length > 1 ? "Mean accuracy, %" : "Accuracy, %";
  draw("text", { transform: `translate(18 ${(FRAME.top + FRAME.bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "axis" }, svg, words);
}

// The Pareto front: nothing is both faster and better than what lies on it.
function front(svg, shown, toX, toY) {
  const sorted = [...shown].sort((a, b) => b.speed - a.speed || b.score - a.score);
  const best = sorted.filter((e, i) => sorted.slice(0, i).every((other) => other.score < e.score)).reverse();
  if (best.length < 2) return [];
  const path = best.map((e, i) => (i ? `V${toY(e.score)}H${toX(e.speed)}` : `M${toX(e.speed)} ${toY(e.score)}`)).join("");
  draw("path", { d: path, stroke: "#c9a227", "stroke-width": 2, fill: "none" }, svg);
  return best.slice(1).flatMap((e, i) => {
    const [x0, y0, x1, y1] = [toX(best[i].speed), toY(best[i].score), toX(e.speed), toY(e.score)];
    return [[x0, y0, x0, y1], [x0, y1, x1, y1]];
  });
}

function bubble(svg, place, v) {
  const { e } = place, { colour } = data.families[e.row.family];
  const group = draw("g", { class: "bubble", tabindex: 0, "data-variant": e.row.key, role: "img", "aria-label": details(e, v) }, svg);
  const radius = Math.max(place.r, 6);
  draw("circle", { cx: place.x, cy: place.y, r: radius, fill: e.memory ? colour : "none", "fill-opacity": 0.6, stroke: e.memory ? colour : "none", "pointer-events": "all" }, group);
  const show = (x, y) => tip(details(e, v), x, y);
  group.addEventListener("pointermove", (event) => show(event.pageX, event.pageY));
  group.addEventListener("pointerleave", () => ($("tip").hidden = true));
  group.addEventListener("focus", () => {
    const box = group.getBoundingClientRect();
    show(box.right + window.scrollX, box.top + window.scrollY);
  });
  group.addEventListener("blur", () => ($("tip").hidden = true));
}

// The error bar and the sign of the family, above all circles.
function middle(svg, { e, x, y }, toY) {
  const group = draw("g", { "pointer-events": "none" }, svg);
  if (e.deviation) {
    const [top, bottom] = [toY(e.score + e.deviation), toY(e.score - e.deviation)];
    const path = `M${x} ${top}V${bottom}M${x - 3} ${top}h6M${x - 3} ${bottom}h6`;
    draw("path", { d: path, stroke: "#222", fill: "none" }, group);
  }
  const shape = SHAPES[data.families[e.row.family].marker] || SHAPES.p;
  draw("path", { d: shape, transform: `translate(${x} ${y})`, fill: "#222", stroke: "#fff", "stroke-width": 0.7 }, group);
}

function tip(text, x, y) {
  const box = $("tip");
  box.textContent = text;
  box.hidden = false;
  const left = x + 14 + box.offsetWidth > document.documentElement.clientWidth ? x - 14 - box.offsetWidth : x + 14;
  box.style.left = `${Math.max(4, left)}px`;
  box.style.top = `${y + 12}px`;
}

// Labels choose the cheapest of many places, the most crowded first: never on each other, if possible not on circles.
function names(svg, places, lines, v) {
  for (const place of places) {
    place.text = draw("text", { x: 0, y: 0 }, svg, place.e.row.label + marks(place.e.row, v.tasks));
    place.width = place.text.getComputedTextLength() + 4;
    place.crowd = places.reduce((sum, other) => sum + Math.exp(-Math.hypot(place.x - other.x, place.y - other.y) / 70), 0);
  }
  const turns = [...places].sort((a, b) => b.crowd - a.crowd);
  for (let round = 0; round < 3; round++) for (const place of turns) place.box = bestBox(place, places, lines);
  for (const place of places) {
    place.text.setAttribute("x", place.box[0] + 2);
    place.text.setAttribute("y", place.box[3] - 4);
    leader(svg, place, places);
  }
}

// A line from the sign to the name where the name is far from its circle, or about as near to another one.
function leader(svg, place, places) {
  const { x, y, box } = place, gap = (other) => distanceTo(box, other) - Math.max(other.r, 6), own = gap(place);
  const sign = 6, [ex, ey] = nearest(box, x, y), distance = distanceTo(box, place);
  if (distance <= sign || (own <= 10 && places.every((other) => other === place || gap(other) >= Math.max(own, 0) + 2))) return;
  const start = sign / distance;
  draw("line", { x1: x + (ex - x) * start, y1: y + (ey - y) * start, x2: ex, y2: ey, stroke: "#222", "stroke-width": 0.8 }, svg);
}

const overlap = (a, b) => a[0] < b[2] + 1 && b[0] < a[2] + 1 && a[1] < b[3] && b[1] < a[3];
const nearest = (box, x, y) => [Math.min(Math.max(x, box[0]), box[2]), Math.min(Math.max(y, box[1]), box[3])];

function distanceTo(box, { x, y }) {
  const [ex, ey] = nearest(box, x, y);
  return Math.hypot(ex - x, ey - y);
}

function bestBox(place, places, lines) {
  let best = null, lowest = Infinity;
  const height = 16, clamp = (value) => Math.max(-1, Math.min(1, 1.5 * value));
  for (const gap of [2, 6, 12, 20, 30, 42, 56, 74, 96, 124, 160, 210, 280, 380])
    for (let i = 0; i < 24; i++) {
      const dx = Math.cos((i * Math.PI) / 12), dy = Math.sin((i * Math.PI) / 12), reach = Math.max(place.r, 6) + gap;
      const cx = place.x + reach * dx + (place.width / 2) * clamp(dx), cy = place.y + reach * dy + (height / 2) * clamp(dy);
      const box = [cx - place.width / 2, cy - height / 2, cx + place.width / 2, cy + height / 2];
      let cost = 0.5 * gap + 2 * (1 - dx) + 0.7 * (1 + dy);
      if (box[0] < FRAME.left + 2 || box[2] > FRAME.right - 2 || box[1] < FRAME.top || box[3] > FRAME.bottom - 2) cost += 1e6;
      cost += 8 * lines.filter((line) => overlap(box, line)).length;
      for (const other of places) {
        if (cost > lowest) break;
        if (other !== place && other.box && overlap(box, other.box)) cost += 1e6;
        const depth = Math.max(other.r, 6) - distanceTo(box, other);
        cost += 3 * Math.max(0, depth) + (other === place ? 0 : 1.5 * Math.max(0, depth + 8)) + (depth > Math.max(other.r, 6) - 6 ? 200 : 0);
      }
      if (cost < lowest) [lowest, best] = [cost, box];
    }
  return best;
}

function legend(svg, shown, largest, most) {
  let x = FRAME.left, y = FRAME.bottom + 66;
  for (const [name, { colour, marker, words }] of Object.entries(data.families)) {
    if (!shown.some((e) => e.row.family === name)) continue;
    const text = draw("text", { x: 0, y: 0 }, svg, words), width = text.getComputedTextLength() + 40;
    if (x + width > FRAME.right - 230) [x, y] = [FRAME.left, y + 21];
    draw("circle", { cx: x + 8, cy: y, r: 8, fill: colour, "fill-opacity": 0.6 }, svg);
    draw("path", { d: SHAPES[marker] || SHAPES.p, transform: `translate(${x + 8} ${y})`, fill: "#222" }, svg);
    text.setAttribute("x", x + 21);
    text.setAttribute("y", y + 4);
    x += width;
  }
  if (!most) return;
  x = FRAME.right - 215;
  const round = (value) => { const p = 10 ** Math.floor(Math.log10(value)); return [5, 2, 1].find((m) => m * p <= value) * p; };
  const large = round(most * Math.min(1, (26 / largest) ** 2));
  for (const value of [large, round(large / 4)]) {
    const r = largest * Math.sqrt(value / most);
    draw("circle", { cx: x + r, cy: FRAME.bottom + 80, r, fill: "none", stroke: "#8a8a8a" }, svg);
    const text = draw("text", { x: x + 2 * r + 5, y: FRAME.bottom + 84 }, svg, memory(value));
    x += 2 * r + text.getComputedTextLength() + 18;
  }
}

// ---- table

function columns(v) {
  const base = v.reference;
  return [
    ["variant", "Variant", (e) => e.row.label, (e) => e.row.label],
    ["family", "Family", (e) => data.families[e.row.family].words, (e) => data.families[e.row.family].words],
    ["score", v.tasks.length > 1 ? "Mean" : "Score", (e) => e.score, (e) => percent(e.score) + (e.score === null ? "" : spread(e.deviation) + marks(e.row, v.tasks))],
    ...data.tasks.map((task) => [task, title(task), (e) => taskMean(e.row, task), (e) => taskWords(e.row, task)]),
    ["five", "Mean of 5", (e) => score(e.row, data.choices.five), (e) => meanWords(e.row, data.choices.five)],
    ["six", "Mean of 6", (e) => score(e.row, data.choices.six), (e) => meanWords(e.row, data.choices.six)],
    ["parameters", "Parameters", (e) => e.row.parameters[1], (e) => (e.row.parameters[1] ? e.row.parameters[1].toLocaleString("en") + (e.row.within_lra_rule === false ? " !" : "") : "–")],
    ["speed", "Seq/s", (e) => e.speed || null, (e) => number(e.speed || null)],
    ["speedup", "Ratio", (e) => (e.speed && base?.speed ? e.speed / base.speed : null), (e) => times(e.speed, base?.speed)],
    ["memory", "Memory", (e) => e.memory, (e) => memory(e.memory)],
    ["saving", "Ratio", (e) => (e.memory && base?.memory ? e.memory / base.memory : null), (e) => times(e.memory, base?.memory)],
  ].map(([id, name, value, words]) => ({ id, name, value, words }))
    .filter((column) => column.id !== "five" || state.task !== "five")
    .filter((column) => v.entries.some((e) => column.words(e) !== "–"));
}

function meanWords(row, tasks) {
  const value = score(row, tasks);
  return percent(value) + (value === null ? "" : marks(row, tasks));
}

function taskWords(row, task) {
  const found = row.tasks[task], values = Object.values(accuracies(row, task));
  if (!found) return "–";
  if (!values.length) return found.trouble || "–";
  if (found.failed) return `FAIL${found.mark}`;
  return percent(mean(values)) + spread(deviation(values)) + found.mark + (found.trouble ? ` (${found.trouble})` : "");
}

function table(v) {
  const all = columns(v), sorted = all.find((column) => column.id === state.sort) || all.find((column) => column.id === "score") || all[0];
  const head = document.createElement("tr");
  for (const column of all) {
    const cell = document.createElement("th"), button = document.createElement("button");
    button.textContent = column.name;
    button.type = "button";
    cell.dataset.column = column.id;
    cell.setAttribute("aria-sort", column === sorted ? (state.descending ? "descending" : "ascending") : "none");
    button.addEventListener("click", () => {
      const text = column.id === "variant" || column.id === "family";
      state.descending = sorted === column ? !state.descending : !text;
      state.sort = column.id;
      remember();
      table(v);
    });
    cell.append(button);
    head.append(cell);
  }
  $("head").replaceChildren(head);
  const missing = (value) => value === null || value === undefined;
  const compare = (a, b) => {
    const [one, other] = [sorted.value(a), sorted.value(b)];
    if (missing(one) || missing(other)) return missing(one) - missing(other); // missing ones last either way
    const difference = typeof one === "string" ? one.localeCompare(other, "en") : one - other;
    return (state.descending ? -difference : difference) || a.row.key.localeCompare(b.row.key, "en");
  };
  $("body").replaceChildren(...[...v.entries].sort(compare).map((e) => {
    const line = document.createElement("tr");
    if (e.row.reference) line.className = "reference";
    line.dataset.variant = e.row.key;
    for (const column of all) {
      const cell = document.createElement("td");
      cell.append(...lines(column.words(e)));
      if (column.id === "variant") cell.title = e.row.key;
      line.append(cell);
    }
    return line;
  }));
}

// Brackets, ends of ranges and further reasons get lines of their own, else the last columns are far to the right.
function lines(words) {
  return words.split(/ (?=\(|to )|(?<=[a-z],) /).flatMap((part, i) => (i ? [document.createElement("br"), part] : [part]));
}

// ---- switches

function options(id, choices) {
  const select = $(id);
  select.replaceChildren(...choices.map(([value, words]) => new Option(words, value)));
  if (!choices.some(([value]) => value === state[id])) state[id] = choices.length ? choices[choices.length - 1][0] : "";
  select.value = state[id];
}

function works() {
  const found = new Map();
  for (const row of rowsNow()) for (const cell of cellsOf(row)) found.set(workOf(cell), cell);
  return [...found.values()].sort((a, b) => a.length - b.length || a.batch_size - b.batch_size)
    .map((cell) => [workOf(cell), `length ${cell.length.toLocaleString("en")}, batch ${cell.batch_size}, ${cell.precision}`]);
}

function remember() {
  const changed = Object.entries(state).filter(([key, value]) => value !== start[key]);
  history.replaceState(null, "", changed.length ? `#${new URLSearchParams(changed)}` : location.pathname);
}

function redraw() {
  const rows = rowsNow();
  const tasks = new Set(rows.flatMap((row) => Object.keys(row.tasks)));
  const named = { five: "LRA score: the five tasks", shared: `all that the variants share: ${(data.choices.shared || []).map(title).join(", ")}` };
  const groups = Object.entries(named).filter(([id]) => data.choices[id] && data.choices[id].every((task) => tasks.has(task)));
  options("preset", data.presets.map((preset) => [preset.name, preset.name]));
  options("task", [...data.tasks.filter((task) => tasks.has(task)).map((task) => [task, title(task)]), ...groups]);
  options("mode", Object.entries(data.modes));
  options("hardware", [...new Set(rows.flatMap((row) => Object.keys(row.cells)))].sort().map((name) => [name, name]));
  options("work", works());
  const seeds = [...new Set(rows.flatMap((row) => Object.values(row.tasks).flatMap((task) => Object.keys(task.seeds))))];
  options("seed", [...seeds.sort((a, b) => a - b).map((seed) => [seed, `only ${seed}`]), ["all", "mean of all"]]);
  $("log").checked = state.log;
  remember();

  const v = view();
  $("title").textContent = `${scoreName(v.tasks)} against speed`;
  const work = works().find(([value]) => value === state.work);
  $("conditions").textContent = `preset ${state.preset} | ${data.modes[state.mode]} at ${work ? work[1] : "no measured work"} | ${state.hardware || "no hardware"}`;
  chart(v);
  const absent = v.entries.filter((e) => !v.drawn.includes(e));
  $("absent").textContent = absent.length ? `Not drawn: ${absent.map((e) => `${e.row.label} (${e.reason})`).join("; ")}.` : "";
  const source = data.memory.find(([name]) => name === v.source);
  const area = source ? `Circle area: peak memory ${source[1]}. ` : "";
  $("notes").textContent = `${area}Dashed lines: the Transformer. Yellow line: the Pareto front. Bars: a standard deviation each way over seeds. Ratios: to the Transformer. ` +
    data.presets.find((preset) => preset.name === state.preset).notes.join(" ");
  table(v);
}

for (const id of ["preset", "task", "mode", "hardware", "work", "seed"])
  $(id).addEventListener("change", () => { state[id] = $(id).value; redraw(); });
$("log").addEventListener("change", () => { state.log = $("log").checked; redraw(); });
redraw();
