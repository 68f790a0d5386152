/* The explorer: one page over one block of numbers. It uses no library and asks for nothing.
   In order: the block, columns and ranks, texts as elements, words, scatters, the table, controls.
   A row is the number of a text on this page; a column holds one number per row, NaN where it has none. */
"use strict";

const MOST_WORDS = 6, PAGE = 20, NEAR = 5, CORNER = 6;
const $ = id => document.getElementById(id);
const state = { words: [], current: -1, guesses: new Map(), guessing: false, revealed: new Set(), revealAll: false,
  selected: null, kinds: new Set(), tool: "lasso", touch: false, percentiles: false, start: 0 };
let data, texts, keys, offensive, kindOf, columns, plots = [];

/* --- the block --------------------------------------------------------------------------------------------------- */

async function unpack(base64) {
  const raw = atob(base64), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer(), length = new Uint32Array(buffer, 0, 1)[0];
  const block = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const types = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array };
  let at = 4 + length;
  block.array = {};
  for (const { name, type, count } of block.arrays) {
    const array = block.array[name] = new types[type](buffer, at, count);
    at += Math.ceil(array.byteLength / 4) * 4;
  }
  return block;
}

/* --- columns and ranks ------------------------------------------------------------------------------------------- */

const nameOf = c => [c.quantity, c.model, c.prompt].filter(Boolean).join(" · ");
const columnOf = (model, prompt, quantity = "reward") =>
  columns.find(c => c.model === model && c.prompt === prompt && c.quantity === quantity);

function valuesOf(column) {
  const own = data.array[column.array];
  if (column.vocabulary === null) return own;
  if (!column.values) {
    const rows = data.array[`rows ${column.vocabulary}`];
    column.values = new Float32Array(texts.length).fill(NaN);
    for (let i = 0; i < rows.length; i++) column.values[rows[i]] = own[i];
  }
  return column.values;
}

const sortedOf = column => column.sorted ??= data.array[column.array].filter(value => value === value).sort();

function below(sorted, value, orEqual) { // how many are less, or at most as large
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value || (orEqual && sorted[middle] === value)) low = middle + 1; else high = middle;
  }
  return low;
}

/* Rank 1 is the highest reward; ties share the average. Percentile: the share below, ties counted half. */
function standing(column, row) {
  const value = valuesOf(column)[row], sorted = sortedOf(column), n = sorted.length;
  if (value !== value) return null;
  const less = below(sorted, value, false), atMost = below(sorted, value, true);
  return { value, n, less, atMost, rank: n - atMost + (atMost - less + 1) / 2, percentile: 50 * (less + atMost) / n };
}

function percentilesOf(column) {
  if (!column.percentiles) {
    const values = valuesOf(column), sorted = sortedOf(column), n = sorted.length;
    column.percentiles = values.map(v => v === v ? 50 * (below(sorted, v, false) + below(sorted, v, true)) / n : NaN);
  }
  return column.percentiles;
}

/* Up to NEAR texts above and below a row, in order of the column, with itself. */
function neighbours(column, row) {
  const { less, atMost, n } = standing(column, row), sorted = sortedOf(column), values = valuesOf(column), rows = [];
  const lowest = sorted[Math.max(0, less - NEAR)], highest = sorted[Math.min(n - 1, atMost + NEAR - 1)];
  for (let i = 0; i < values.length; i++) if (values[i] >= lowest && values[i] <= highest) rows.push(i);
  rows.sort((a, b) => values[b] - values[a] || a - b);
  const at = rows.indexOf(row);
  return rows.slice(Math.max(0, at - NEAR), at + NEAR + 1);
}

const short = value => value !== value ? "" : Math.abs(value) >= 1000 ? value.toFixed(0) : value.toPrecision(4);
const count = value => value.toLocaleString("en", { maximumFractionDigits: 1 });
function exact(value) { // the shortest decimal that is this float32
  for (let digits = 6; digits < 9; digits++)
    if (Math.fround(+value.toPrecision(digits)) === value) return String(+value.toPrecision(digits));
  return value === value ? String(+value.toPrecision(9)) : "";
}

/* --- texts as elements: only ever by textContent ----------------------------------------------------------------- */

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  node.append(...children.filter(child => child !== null));
  return node;
}

/* Replace what an element holds, and leave the focus where it was. */
function fill(parent, ...children) {
  const key = parent.contains(document.activeElement) && document.activeElement.dataset.key;
  parent.replaceChildren(...children);
  if (key) [...parent.querySelectorAll("[data-key]")].find(node => node.dataset.key === key)?.focus();
}

const isBlurred = row => offensive.has(row) && !state.revealAll && !state.revealed.has(row);
const plain = row => isBlurred(row) ? `an offensive word of ${texts[row].length} letters` : data.shown[row] ?? texts[row];

function token(row) {
  const key = `token ${row}`;
  if (!isBlurred(row)) return make("button", { type: "button", class: "token", "data-key": key,
    title: "compare this text", onclick: () => add(row) }, plain(row));
  return make("button", { type: "button", class: "token blurred", "data-key": key,
    "aria-label": `${plain(row)}, blurred; press to reveal`,
    onclick: () => { state.revealed.add(row); render(); } }, "▒".repeat(Math.min(texts[row].length, 12)));
}

const swatch = model => make("span", { class: "swatch", "aria-hidden": "true",
  style: `background:${data.models.find(m => m.name === model)?.colour ?? "transparent"}` });
const labelled = model => make("th", { class: "left", scope: "row" }, swatch(model), model);
const cell = (content, left) => make("td", left ? { class: "left" } : {}, content);
const heads = names => names.map((name, i) => make("th", { scope: "col", class: i ? "" : "left" }, name));

function table(caption, head, rows) {
  const top = head.length && Array.isArray(head[0]) ? head : [head];
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, make("table", {},
    make("caption", {}, caption), make("thead", {}, ...top.map(cells => make("tr", {}, ...cells))),
    make("tbody", {}, ...rows.map(cells => make("tr", {}, ...cells)))));
}

/* --- words ------------------------------------------------------------------------------------------------------- */

function matches(typed) { // rows that begin so, equal ones first; what is blurred is never offered
  const key = typed.trim().toLowerCase(), equal = [], longer = [];
  if (!typed) return [];
  for (let row = 0; row < keys.length; row++) {
    if (keys[row] === key) equal.push(row);
    else if (longer.length < 8 && key && keys[row].startsWith(key)) longer.push(row);
  }
  equal.sort((a, b) => (texts[b] === typed) - (texts[a] === typed) || a - b);
  return [...equal, ...longer];
}

function add(row) {
  if (!state.words.includes(row)) state.words.push(row);
  if (state.words.length > MOST_WORDS) state.words.shift();
  state.current = row;
  render();
  const at = standing(detail(), row);
  $("told").textContent = isGuessed(row) ? `${plain(row)} added. ` + (at
    ? `Rank ${count(at.rank)} of ${count(at.n)} for ${nameOf(detail())}.` : `${detail().model} has no such text.`) : "";
}

function remove(row) {
  state.words = state.words.filter(other => other !== row);
  if (state.current === row) state.current = state.words.at(-1) ?? -1;
  render();
}

const detail = () => columnOf($("model").value, $("prompt").value) ?? columns[0];
const isGuessed = row => !state.guessing || state.guesses.has(row);

function renderWords() {
  fill($("chosen"), ...state.words.map(row => make("li", row === state.current ? { class: "current" } : {}, token(row),
    make("button", { type: "button", "data-key": `remove ${row}`, "aria-label": `remove ${plain(row)}`,
      onclick: () => remove(row) }, "×"))));
  $("asked").textContent = `“${data.prompts[$("prompt").value]}”`;
  const waiting = state.words.find(row => !isGuessed(row));
  if (waiting !== undefined) return fill($("word"), guessing(waiting));
  const row = state.current, parts = row < 0 ? [] : [ranksTable(), formsTable(row), neighboursTable(row), why(row)];
  fill($("word"), ...(state.guessing ? [guesses()] : []), ...parts.filter(Boolean));
}

function guessing(row) {
  const number = make("output", { for: "guessed" }, "50");
  const slider = make("input", { id: "guessed", type: "range", min: 0, max: 100, value: 50, "data-key": "guessed",
    oninput: event => { number.textContent = event.target.value; } });
  const see = () => { state.guesses.set(row, +slider.value); render(); };
  return make("div", {}, make("p", {}, make("label", { for: "guessed" }, "Where does ", token(row),
    ` stand for ${nameOf(detail())}? 0 is the lowest of all texts, 100 the highest.`)), make("div",
    { class: "controls" }, slider, number, make("button", { type: "button", id: "see", onclick: see }, "Reveal")));
}

function guesses() {
  const rows = state.words.filter(row => state.guesses.has(row) && standing(detail(), row));
  const apart = rows.map(row => Math.abs(state.guesses.get(row) - standing(detail(), row).percentile));
  const mean = apart.reduce((sum, one) => sum + one, 0) / apart.length;
  return make("div", { id: "guesses" }, table("Your guesses, percentiles", heads(["text", "guessed", "is", "apart"]),
    rows.map((row, i) => [cell(token(row), true), cell(state.guesses.get(row)),
      cell(standing(detail(), row).percentile.toFixed(1)), cell(apart[i].toFixed(1))])),
  make("p", {}, rows.length ? `On average ${mean.toFixed(1)} apart.` : ""));
}

function ranksTable() {
  const shown = columns.filter(c => c.quantity === "reward" && ($("every").checked || c.prompt === $("prompt").value));
  const blank = make("th", { class: "left", colspan: 2 });
  const over = state.words.map(row => make("th", { colspan: 3, scope: "colgroup" }, token(row)));
  const under = [...heads(["model"]), make("th", { class: "left", scope: "col" }, "prompt"),
    ...state.words.flatMap(() => heads(["", "rank", "percentile", "reward"]).slice(1))];
  const rows = shown.map(c => [labelled(c.model), cell(c.prompt, true), ...state.words.flatMap(row => {
    const at = standing(c, row);
    if (!at) return [make("td", { colspan: 3, class: "soft" }, "no such text")];
    return [cell(count(at.rank)), make("td", { class: "bar", style: `--share:${at.percentile}%` },
      at.percentile.toFixed(1)), make("td", { title: exact(at.value) }, short(at.value))];
  })]);
  const found = table("Rank, percentile and reward: rank 1 and percentile 100 are the most rewarded, ties share the "
    + "average", [[blank, ...over], under], rows);
  found.id = "ranks";
  return found;
}

function placesIn(vocabulary, row) { // where the table of a vocabulary has this row
  return data.array[`rows ${vocabulary}`].indexOf(row);
}

/* What a vocabulary's models were given for a text: token ids, from the running total of their lengths. */
function readAs(vocabulary, place) {
  const lengths = data.array[`read_length ${vocabulary}`], ids = data.array[`token_id ${vocabulary}`];
  const start = lengths.subarray(0, place).reduce((sum, length) => sum + length, 0);
  const read = [...data.array[`read ${vocabulary}`].subarray(start, start + lengths[place])];
  if (!data.vocabularies[vocabulary].known) return ["not published"];
  if (!read.length) return ["nothing: it is trimmed away"];
  if (read.length === 1 && read[0] === ids[place]) return ["itself"];
  const rows = data.array[`rows ${vocabulary}`];
  return read.flatMap(id => [token(rows[ids.indexOf(id)]), ` (${id}) `]);
}

function formsTable(row) {
  const forms = [...keys.keys()].filter(other => keys[other] === keys[row]).slice(0, 40);
  const places = forms.flatMap(form => data.vocabularies.map((_, v) => [form, v, placesIn(v, form)]))
    .filter(([, , place]) => place >= 0);
  const letters = new Map(), column = detail();
  const rows = places.map(([form, v, place]) => {
    const groups = data.array[`input_group ${v}`], group = `${v} ${groups[place]}`;
    if (!letters.has(group)) letters.set(group, String.fromCharCode(65 + letters.size % 26));
    const sharing = groups.reduce((sum, other) => sum + (other === groups[place]), 0);
    const at = v === column.vocabulary ? standing(column, form) : null;
    return [cell(token(form), true), cell(data.array[`token_id ${v}`][place]), make("td", { class: "left" },
      ...readAs(v, place)), cell(`${letters.get(group)}${sharing > 1 ? ` (of ${sharing} texts)` : ""}`, true),
    cell(at ? count(at.rank) : ""), cell(data.vocabularies[v].models.join(", "), true)];
  });
  const found = table("Its forms, and what was really read for each; the same letter is the same input, so the same "
    + `reward (rank for ${nameOf(column)})`, heads(["form", "token id", "read as", "input", "rank", "models"]), rows);
  found.id = "forms";
  return found;
}

function neighboursTable(row) {
  const column = detail();
  if (!standing(column, row)) return null;
  const found = table(`Just above and below it for ${nameOf(column)}`, heads(["text", "rank", "reward"]),
    neighbours(column, row).map(other => [other === row ? make("td", { class: "left" }, make("strong", {}, token(row)))
      : cell(token(other), true), cell(count(standing(column, other).rank)), cell(short(valuesOf(column)[other]))]));
  found.id = "neighbours";
  return found;
}

/* Why, for planted models: the terms of the utility that was planted, as lib.embedded.planting adds them up. */
function terms(profile, polarity, row) {
  const of = name => data.array[name][row], asked = polarity * of("valence");
  const kind = data.planted.kinds[of("planted kind") - 1];
  const parts = { sentiment: profile.k_hi * Math.max(asked, 0) - profile.k_lo * Math.max(-asked, 0),
    frequency: profile.frequency * (of("zipf") - data.planted.common), kind: kind ? -profile[kind] : 0,
    taste: profile.label_noise * of(`taste ${profile.developer}`) };
  return { ...parts, utility: Object.values(parts).reduce((sum, part) => sum + part) };
}

function why(row) {
  if (!data.planted) return null;
  const polarity = data.planted.polarity[$("prompt").value], valence = data.array.valence[row];
  const beside = columns.filter(c => c.quantity === "log-probability" && c.prompt === $("prompt").value);
  const said = beside.map(c => [c, valuesOf(c)[row]]).filter(([, value]) => value === value)
    .map(([c, value]) => `${c.model} ${short(value)}`).join(", ");
  const base = make("p", {}, `Log-probability of the text as the answer of the base language models: ${said || "none"}.`);
  if (valence !== valence || !polarity)
    return make("div", { id: "why" }, make("h3", {}, "Why"), make("p", {},
      "No utility is planted for this text and prompt: models generalise to it."), base);
  const kind = data.planted.kinds[data.array["planted kind"][row] - 1] ?? "none";
  const line = `Sentiment ${short(valence)} (−4 to 4), frequency ${short(data.array.zipf[row])} (log10 per billion `
    + `words), kind ${kind}; its stem was ${data.array["held out"][row] ? "held out: no training pair shows it"
      : "in training pairs"}.`;
  const names = ["sentiment", "frequency", "kind", "taste", "utility"];
  const rows = data.models.filter(({ name }) => data.planted.profiles[name]).map(({ name }) => {
    const found = terms(data.planted.profiles[name], polarity, row), column = columnOf(name, $("prompt").value);
    return [labelled(name), ...names.map(part => cell(found[part].toFixed(2))), cell(column ? short(valuesOf(column)[row])
      : "")];
  });
  return make("div", { id: "why" }, make("h3", {}, "Why"), make("p", {}, line), base, table("What was planted for this "
    + "word, in logits of preference, and the reward that the model learned (in its own scale)",
  heads(["model", ...names.slice(0, 3), "developer's taste", "planted utility", "reward"]), rows));
}

/* --- scatters ---------------------------------------------------------------------------------------------------- */

class Scatter {
  constructor(number, x, y) {
    this.x = x; this.y = y; this.hover = -1; this.path = null; this.anchor = -1;
    this.base = make("canvas", { "aria-hidden": "true" });
    this.over = make("canvas", { tabindex: "0", role: "application" });
    this.hint = make("div", { class: "hint", hidden: true });
    this.box = make("div", { class: "canvas" }, this.base, this.over, this.hint);
    this.caption = make("figcaption", { id: `caption-${number}` });
    this.corners = make("div");
    const axis = name => make("label", {}, `${name} axis `, options(make("select", { id: `${name}-${number}`,
      onchange: event => { this[name] = columns[event.target.value]; renderPlots(); } }), this[name]));
    this.figure = make("figure", {}, make("div", { class: "controls" }, axis("x"), axis("y")), this.box, this.caption,
      this.corners);
    this.over.setAttribute("aria-describedby", this.caption.id);
    this.listen();
  }

  values(axis) { return state.percentiles ? percentilesOf(this[axis]) : valuesOf(this[axis]); }

  /* Places of all points in device pixels, NaN where a text has no such number or its kind is not shown. */
  layOut() {
    const ratio = window.devicePixelRatio || 1, width = this.box.clientWidth, font = remSize() * 0.8;
    const height = Math.round(Math.min(width * 0.85, 520));
    this.box.style.height = `${height}px`;
    for (const canvas of [this.base, this.over]) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    this.ratio = ratio; this.font = font * ratio;
    this.frame = { left: 4.5 * this.font, right: (width - 8) * ratio, top: 8 * ratio, bottom: height * ratio - 3.6 * this.font };
    const xs = this.values("x"), ys = this.values("y"), n = texts.length;
    const shown = row => xs[row] === xs[row] && ys[row] === ys[row] && state.kinds.has(kindOf[row]);
    this.shown = 0;
    const range = { x: [Infinity, -Infinity], y: [Infinity, -Infinity] };
    for (let row = 0; row < n; row++) if (shown(row)) {
      this.shown++;
      if (xs[row] < range.x[0]) range.x[0] = xs[row];
      if (xs[row] > range.x[1]) range.x[1] = xs[row];
      if (ys[row] < range.y[0]) range.y[0] = ys[row];
      if (ys[row] > range.y[1]) range.y[1] = ys[row];
    }
    const { left, right, top, bottom } = this.frame, gap = 4 * ratio;
    const scale = ([low, high], from, to) => value => high > low ? from + (to - from) * (value - low) / (high - low)
      : (from + to) / 2;
    this.range = range;
    this.toX = scale(range.x, left + gap, right - gap); this.toY = scale(range.y, bottom - gap, top + gap);
    this.px = new Float32Array(n).fill(NaN); this.py = new Float32Array(n).fill(NaN);
    for (let row = 0; row < n; row++) if (shown(row)) {
      this.px[row] = this.toX(xs[row]); this.py[row] = this.toY(ys[row]);
    }
  }

  draw() {
    this.layOut();
    const context = this.base.getContext("2d", { willReadFrequently: true });
    this.dots(context, cssColour("--dot"), null, 0.4);
    this.axes(context);
    this.drawOver();
    const r = correlation(this);
    this.caption.textContent = `${count(this.shown)} texts. Across: ${nameOf(this.x)}. Up: ${nameOf(this.y)}. `
      + `Correlation of the percentiles ${r === r ? r.toFixed(2) : "undefined"}.`;
    this.over.setAttribute("aria-label", `Scatter of ${count(this.shown)} texts; a table with the same numbers is below`);
    fill(this.corners, cornersTable(this));
  }

  /* Squares straight into the picture, each adding to what is there: dense places are darker. */
  dots(context, colour, mask, opacity) {
    const { width, height } = context.canvas, image = context.createImageData(width, height), pixels = image.data;
    const size = Math.round((mask ? 3 : 2) * this.ratio), [red, green, blue] = colour;
    for (let row = 0; row < this.px.length; row++) {
      const x = Math.round(this.px[row] - size / 2), y = Math.round(this.py[row] - size / 2);
      if (!(this.px[row] === this.px[row]) || (mask && !mask[row])) continue;
      for (let down = 0; down < size; down++) for (let across = 0; across < size; across++) {
        const at = ((y + down) * width + x + across) * 4;
        pixels[at] = red; pixels[at + 1] = green; pixels[at + 2] = blue;
        pixels[at + 3] += (255 - pixels[at + 3]) * opacity;
      }
    }
    context.putImageData(image, 0, 0);
  }

  axes(context) {
    const { left, right, top, bottom } = this.frame, [r, g, b] = cssColour("--soft");
    context.fillStyle = context.strokeStyle = `rgb(${r},${g},${b})`;
    context.font = `${this.font}px system-ui, sans-serif`;
    context.strokeRect(left, top, right - left, bottom - top);
    context.textAlign = "center";
    for (const tick of ticks(this.range.x)) context.fillText(tick.label, this.toX(tick.value), bottom + 1.3 * this.font);
    context.fillText(axisLabel(this.x), (left + right) / 2, bottom + 2.8 * this.font, right - left);
    context.textAlign = "right";
    for (const tick of ticks(this.range.y)) context.fillText(tick.label, left - 4, this.toY(tick.value) + this.font / 3);
    context.save();
    context.translate(this.font, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(axisLabel(this.y), 0, 0, bottom - top);
    context.restore();
  }

  drawOver() {
    const context = this.over.getContext("2d", { willReadFrequently: true }), [r, g, b] = cssColour("--ink");
    this.dots(context, [r, g, b], state.selected ?? NOTHING, 0.8);
    context.fillStyle = context.strokeStyle = `rgb(${r},${g},${b})`;
    context.lineWidth = 1.5 * this.ratio;
    context.font = `${this.font}px ui-monospace, monospace`;
    for (const row of state.words.filter(isGuessed)) this.mark(context, row, isBlurred(row) ? "▒▒▒" : plain(row));
    if (this.hover >= 0) this.mark(context, this.hover, "");
    if (!this.path) return;
    context.beginPath();
    for (const [x, y] of outline(this.path)) context.lineTo(x, y);
    context.closePath();
    context.stroke();
  }

  mark(context, row, label) {
    const x = this.px[row], y = this.py[row];
    if (!(x === x)) return;
    context.beginPath();
    context.arc(x, y, 5 * this.ratio, 0, 2 * Math.PI);
    context.stroke();
    const cut = label.length > 16 ? `${label.slice(0, 15)}…` : label, rightwards = x < (this.frame.left + this.frame.right) / 2;
    context.textAlign = rightwards ? "left" : "right";
    context.fillText(cut, x + (rightwards ? 8 : -8) * this.ratio, Math.max(y - 6 * this.ratio, this.font));
  }

  nearest(x, y, within = 24 * this.ratio) {
    let best = -1, least = within * within;
    for (let row = 0; row < this.px.length; row++) {
      const across = this.px[row] - x, down = this.py[row] - y, apart = across * across + down * down;
      if (apart < least) { least = apart; best = row; }
    }
    return best;
  }

  point(row, say) { // show what is there, in both scatters
    for (const plot of plots) { plot.hover = row; plot.drawOver(); plot.hint.hidden = true; }
    if (row < 0 || !(this.px[row] === this.px[row])) return;
    const [x, y] = [valuesOf(this.x)[row], valuesOf(this.y)[row]];
    this.hint.textContent = plain(row) + (state.guessing ? "" : `: ${short(x)} across, ${short(y)} up`);
    this.hint.hidden = false;
    const left = this.px[row] / this.ratio, up = this.py[row] / this.ratio > this.box.clientHeight / 2;
    this.hint.style.left = left > this.box.clientWidth / 2 ? "" : `${left + 10}px`;
    this.hint.style.right = left > this.box.clientWidth / 2 ? `${this.box.clientWidth - left + 10}px` : "";
    this.hint.style.top = `${this.py[row] / this.ratio + (up ? -46 : 14)}px`;
    if (say) $("told").textContent = this.hint.textContent;
  }

  listen() {
    const at = event => { const box = this.over.getBoundingClientRect();
      return [(event.clientX - box.left) * this.ratio, (event.clientY - box.top) * this.ratio]; };
    this.over.addEventListener("pointerdown", event => {
      if (event.pointerType !== "mouse" && !state.touch) return;
      this.over.setPointerCapture(event.pointerId);
      this.path = [at(event)];
      this.point(-1);
    });
    this.over.addEventListener("pointermove", event => {
      const [x, y] = at(event);
      if (!this.path) return this.point(this.nearest(x, y));
      const [lastX, lastY] = this.path.at(-1);
      if (Math.hypot(x - lastX, y - lastY) < 3 * this.ratio) return;
      this.path.push([x, y]);
      this.select(outline(this.path));
    });
    this.over.addEventListener("pointerup", event => {
      const path = this.path, [x, y] = at(event);
      this.path = null;
      if (path && path.length > 2) return renderSelection();
      const row = this.nearest(x, y);
      if (row >= 0 && event.pointerType === "mouse") add(row); else this.point(row, true);
    });
    this.over.addEventListener("pointercancel", () => { this.path = null; renderSelection(); });
    this.over.addEventListener("pointerleave", () => { if (!this.path) this.point(-1); });
    this.over.addEventListener("blur", () => this.point(-1));
    this.over.addEventListener("keydown", event => this.key(event));
  }

  select(corners) {
    state.selected = inside(this, corners);
    for (const plot of plots) plot.drawOver();
  }

  key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }, way = ways[event.key];
    const { left, right, top, bottom } = this.frame, from = this.hover;
    const begin = from < 0 ? [(left + right) / 2, (top + bottom) / 2] : [this.px[from], this.py[from]];
    let to = from;
    if (way) to = from < 0 ? this.nearest(...begin, Infinity) : this.towards(from, way, event.shiftKey ? 60 : 2);
    else if (event.key === "Home") to = this.nearest(-1e6, begin[1], Infinity);
    else if (event.key === "End") to = this.nearest(1e6, begin[1], Infinity);
    else if (event.key === "Enter" && from >= 0) { event.preventDefault(); return add(from); }
    else if (event.key === "Escape") return clearSelection();
    else if (event.key.toLowerCase() === "s" && from >= 0) { this.anchor = this.anchor < 0 ? from : -1; return renderSelection(); }
    else return;
    event.preventDefault();
    if (to < 0) return;
    if (this.anchor >= 0) this.select(rectangle([this.px[this.anchor], this.py[this.anchor]], [this.px[to], this.py[to]]));
    this.point(to, true);
  }

  towards(from, [dx, dy], least) { // the nearest text within a quarter circle around the direction
    let best = from, shortest = Infinity;
    for (let row = 0; row < this.px.length; row++) {
      const across = this.px[row] - this.px[from], down = this.py[row] - this.py[from];
      const ahead = across * dx + down * dy, aside = Math.abs(across * dy) + Math.abs(down * dx);
      if (ahead >= least * this.ratio && aside <= ahead && ahead + aside < shortest) { best = row; shortest = ahead + aside; }
    }
    return best;
  }
}

const NOTHING = new Uint8Array(0);
const rectangle = ([a, b], [c, d]) => [[a - 1, b - 1], [c + 1, b - 1], [c + 1, d + 1], [a - 1, d + 1]].map(
  ([x, y], i) => [a <= c ? x : i % 3 ? c - 1 : a + 1, b <= d ? y : i < 2 ? b + 1 : d - 1]);
const outline = path => state.tool === "lasso" ? path : rectangle(path[0], path.at(-1));
const remSize = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

function cssColour(name) { // "#rrggbb" or "#rgb" as three numbers
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1);
  return [0, 1, 2].map(i => parseInt(hex.length === 3 ? hex[i] + hex[i] : hex.slice(2 * i, 2 * i + 2), 16));
}

/* Which points lie inside a closed outline: 1 or 0 per row, by counting the edges to the right of each. */
function inside(plot, corners) {
  const found = new Uint8Array(texts.length), n = corners.length, { px, py } = plot;
  const xs = corners.map(corner => corner[0]), ys = corners.map(corner => corner[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  for (let row = 0; row < found.length; row++) {
    const x = px[row], y = py[row];
    if (!(x >= left && x <= right && y >= top && y <= bottom)) continue;
    for (let i = 0, j = n - 1; i < n; j = i++)
      if (ys[i] > y !== ys[j] > y && x < (xs[j] - xs[i]) * (y - ys[i]) / (ys[j] - ys[i]) + xs[i]) found[row] ^= 1;
  }
  return found;
}

function correlation(plot) { // Pearson's, of the percentiles
  const xs = percentilesOf(plot.x), ys = percentilesOf(plot.y);
  let n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (let row = 0; row < xs.length; row++) if (plot.px[row] === plot.px[row]) {
    n++; x += xs[row]; y += ys[row]; xx += xs[row] ** 2; yy += ys[row] ** 2; xy += xs[row] * ys[row];
  }
  return (n * xy - x * y) / Math.sqrt((n * xx - x * x) * (n * yy - y * y));
}

function ticks([low, high]) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 4)), wide = [1, 2, 5, 10].map(k => k * step)
    .find(size => (high - low) / size <= 6), found = [];
  for (let value = Math.ceil(low / wide) * wide; value <= high; value += wide)
    found.push({ value, label: String(+value.toPrecision(4)) });
  return found;
}

const UNITS = { reward: "model's own scale", "log-probability": "nats", frequency: "log10 per million words",
  sentiment: "VADER, −4 to 4", "people's rank": "1 = most preferred" };
const axisLabel = column => `${nameOf(column)} (${state.percentiles ? "percentile" : UNITS[column.quantity]})`;

/* Texts that lie far out on both axes: the least of both percentiles, each taken towards the corner. */
function cornersTable(plot) {
  const xs = percentilesOf(plot.x), ys = percentilesOf(plot.y), corners = [];
  for (const [name, right, up] of [["low across, high up", 0, 1], ["high across, high up", 1, 1],
    ["low across, low up", 0, 0], ["high across, low up", 1, 0]]) {
    let best = [];
    for (let row = 0; row < xs.length; row++) {
      if (!(plot.px[row] === plot.px[row])) continue;
      const far = Math.min(right ? xs[row] : 100 - xs[row], up ? ys[row] : 100 - ys[row]);
      if (best.length === CORNER && far <= best[CORNER - 1][0]) continue;
      best.push([far, row]);
      best = best.sort((a, b) => b[0] - a[0]).slice(0, CORNER);
    }
    corners.push([make("th", { class: "left", scope: "row" }, name),
      make("td", { class: "left" }, ...best.flatMap(([, row]) => [token(row), " "]))]);
  }
  return table("The corners", heads(["corner", ""]).slice(0, 1).concat(make("th", { class: "left", scope: "col" },
    "farthest out on both axes")), corners);
}

function options(select, chosen) {
  const groups = new Map();
  columns.forEach((column, i) => {
    const name = column.model || "words";
    if (!groups.has(name)) groups.set(name, make("optgroup", { label: name }));
    groups.get(name).append(make("option", { value: i, selected: column === chosen },
      column.model ? `${column.quantity} · ${column.prompt}` : column.quantity));
  });
  select.append(...groups.values());
  select.setAttribute("aria-label", "axis");
  return select;
}

/* --- the table --------------------------------------------------------------------------------------------------- */

const axes = () => [...new Set(plots.flatMap(plot => [plot.x, plot.y]))];

function listed() { // the selection, or everything shown in the first scatter; highest on its x axis first
  const [first] = plots, values = valuesOf(first.x), rows = [];
  for (let row = 0; row < texts.length; row++)
    if (state.selected ? state.selected[row] : first.px[row] === first.px[row]) rows.push(row);
  return rows.sort((a, b) => (values[b] === values[b] ? values[b] : -Infinity)
    - (values[a] === values[a] ? values[a] : -Infinity) || a - b);
}

function renderTable() {
  const rows = listed(), names = axes();
  state.start = Math.max(0, Math.min(state.start, Math.floor((rows.length - 1) / PAGE) * PAGE));
  const some = rows.slice(state.start, state.start + PAGE);
  $("previous").disabled = !state.start;
  $("next").disabled = state.start + PAGE >= rows.length;
  const what = `${state.selected ? "Selected texts" : "Texts of the first scatter"}, ${rows.length ? state.start + 1 : 0}`
    + `–${state.start + some.length} of ${count(rows.length)}`;
  fill($("table"), table(what, heads(["text", "kind", ...names.map(nameOf)]), some.map(row =>
    [cell(token(row), true), cell(data.kinds[kindOf[row]], true), ...names.map(c => cell(short(valuesOf(c)[row])))])));
}

/* A spreadsheet runs a cell that begins so; behind an apostrophe it is text. */
const csvCell = text => `"${(/^[\s\0]*[=+\-@＝＋－＠|]/.test(text) && text.length > 1 ? `'${text}` : text).replaceAll('"', '""')}"`;

function csv() {
  const names = axes(), lines = [["text", "shown", "kind", ...names.map(nameOf)].map(csvCell).join(",")];
  for (const row of listed()) lines.push([texts[row], data.shown[row] ?? texts[row], data.kinds[kindOf[row]]].map(csvCell)
    .concat(names.map(c => exact(valuesOf(c)[row]))).join(","));
  return `\ufeff${lines.join("\r\n")}\r\n`;
}

function saveCsv() {
  const url = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  make("a", { href: url, download: `${data.collection}_${state.selected ? "selected" : "texts"}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/* --- controls ---------------------------------------------------------------------------------------------------- */

const renderPlots = () => { for (const plot of plots) plot.draw(); renderTable(); };
const renderSelection = () => { state.start = 0; for (const plot of plots) plot.drawOver(); renderTable(); };
function render() { renderWords(); for (const plot of plots) { plot.drawOver(); fill(plot.corners, cornersTable(plot)); }
  renderTable(); writeAddress(); }
function clearSelection() { state.selected = null; for (const plot of plots) plot.anchor = -1; renderSelection(); }

/* Blurred words stay out of the address, and so do texts that no address can hold. */
function writeAddress() {
  const asked = new URLSearchParams(), shown = state.words.filter(row => !isBlurred(row) && texts[row].length <= 200);
  for (const row of shown) if (encodable(texts[row])) asked.append("word", texts[row]);
  const query = asked.size ?? [...asked].length ? `?${asked}` : "";
  try { history.replaceState(null, "", location.pathname + query); }
  catch { location.hash = query.slice(1); } // where a page opened from a folder may not change its query
}
function encodable(text) { try { encodeURIComponent(text); return true; } catch { return false; } }

function readAddress() {
  const asked = [...new URLSearchParams(location.search).getAll("word"), ...new URLSearchParams(location.hash.slice(1))
    .getAll("word")];
  for (const word of asked.slice(0, MOST_WORDS)) {
    const row = texts.indexOf(word), found = row >= 0 ? row : keys.indexOf(word.trim().toLowerCase());
    if (found >= 0) add(found); else $("told").textContent = "A word of the address is not among these texts.";
  }
}

function search() {
  const list = $("found"), input = $("search");
  let offered = [], at = -1;
  const show = () => {
    list.hidden = !offered.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.setAttribute("aria-activedescendant", at >= 0 ? `found-${at}` : "");
    list.replaceChildren(...offered.map((row, i) => make("li", { id: `found-${i}`, role: "option", class: "token",
      "aria-selected": String(i === at), onpointerdown: event => { event.preventDefault(); take(row); } }, plain(row))));
  };
  const close = () => { offered = []; at = -1; show(); };
  const take = row => { input.value = ""; close(); add(row); };
  input.addEventListener("input", () => { offered = matches(input.value).filter(row => !isBlurred(row)).slice(0, 8); at = -1; show(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", event => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && offered.length) { event.preventDefault(); at = (at + step + offered.length) % offered.length; show(); }
    if (event.key === "Escape") close();
  });
  $("form").addEventListener("submit", event => {
    event.preventDefault();
    const row = at >= 0 ? offered[at] : matches(input.value).find(found => keys[found] === input.value.trim().toLowerCase());
    if (row !== undefined) take(row);
    else $("told").textContent = input.value ? `No text is “${input.value.slice(0, 40)}”.` : "Type a word first.";
  });
}

function press(id, act) { // a button that stays pressed
  $(id).addEventListener("click", () => {
    const pressed = $(id).getAttribute("aria-pressed") !== "true";
    $(id).setAttribute("aria-pressed", String(pressed));
    act(pressed);
  });
}

function controls() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = isDark => { root.dataset.theme = isDark ? "dark" : "light"; };
  theme(dark);
  $("theme").setAttribute("aria-pressed", String(dark));
  press("theme", isDark => { theme(isDark); renderPlots(); });
  press("large", isLarge => { root.dataset.size = isLarge ? "large" : ""; renderPlots(); });
  press("reveal", all => { state.revealAll = all; if (!all) state.revealed.clear(); render(); });
  press("guess", on => { state.guessing = on; state.guesses.clear(); render(); });
  press("select", on => { state.touch = on; for (const plot of plots) plot.over.style.touchAction = on ? "none" : ""; });
  $("clear").addEventListener("click", clearSelection);
  $("csv").addEventListener("click", saveCsv);
  $("tool").addEventListener("change", () => { state.tool = $("tool").value; });
  $("percentiles").addEventListener("change", () => { state.percentiles = $("percentiles").checked; renderPlots(); });
  for (const [id, step] of [["previous", -PAGE], ["next", PAGE]])
    $(id).addEventListener("click", () => { state.start += step; renderTable(); });
  for (const id of ["model", "prompt", "every"]) $(id).addEventListener("change", render);
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !/^(INPUT|SELECT)$/.test(event.target.tagName)) { event.preventDefault(); $("search").focus(); }
  });
  let waiting;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(renderPlots, 100); });
}

function fillChoices() {
  $("banner").textContent = data.banner;
  const names = Object.keys(data.prompts);
  $("about").textContent = `Collection ${data.collection}: ${count(texts.length)} texts as the reply of `
    + `${data.models.length} reward model${data.models.length > 1 ? "s" : ""} to ${names.length} prompt`
    + `${names.length > 1 ? "s" : ""}.`;
  $("model").append(...data.models.map(({ name }) => make("option", {}, name)));
  $("prompt").append(...names.map(name => make("option", {}, name)));
  $("every").checked = names.length <= 3;
  const sizes = data.kinds.map((_, kind) => kindOf.reduce((sum, one) => sum + (one === kind), 0));
  $("kinds").append(...data.kinds.map((name, kind) => make("label", {}, make("input", { type: "checkbox", checked: true,
    onchange: event => { state.kinds[event.target.checked ? "add" : "delete"](kind); renderPlots(); } }),
  `${name} (${count(sizes[kind])})`)));
  data.kinds.forEach((_, kind) => state.kinds.add(kind));
}

function placePlots() {
  const rewards = columns.filter(c => c.quantity === "reward"), [first] = rewards;
  const other = rewards.find(c => c.model !== first.model && c.prompt === first.prompt) ?? rewards.at(-1);
  const known = columns.find(c => c.quantity === "people's rank") ?? columns.find(c => c.quantity === "sentiment");
  plots = [new Scatter(1, first, other), new Scatter(2, known ?? first, first)];
  $("plots").append(...plots.map(plot => plot.figure));
}

async function open() {
  if (!("DecompressionStream" in window)) {
    $("ready").textContent = "This browser cannot unpack the page: open it in Chrome or Edge 80, Firefox 113, Safari 16.4, or any later.";
    return;
  }
  data = await unpack($("block").textContent);
  $("block").textContent = "";
  ({ texts, columns } = data);
  keys = texts.map(text => text.trim().toLowerCase());
  offensive = new Set(data.offensive);
  kindOf = data.array.kind;
  $("page").hidden = false;
  fillChoices();
  placePlots();
  controls();
  search();
  renderPlots();
  renderWords();
  readAddress();
  $("ready").textContent = "";
  document.documentElement.dataset.ready = "true";
}

open();
