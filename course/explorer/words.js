/* Words: texts as elements, blurred where they are offensive, and all that is said of the words that were searched. */
"use strict";

const MOST_WORDS = 6;
const $ = id => document.getElementById(id);

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
const plain = row => isBlurred(row) ? `an offensive word of ${texts[row].length} letters`
  : data.shown[row] ?? texts[row];

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
const WORDY = new Set(["text", "model", "prompt"]);
const heads = names => names.map(name => make("th", { scope: "col", class: WORDY.has(name) ? "left" : "" }, name));

function table(caption, head, rows) {
  const top = Array.isArray(head[0]) ? head : [head];
  const lines = part => part.map(cells => make("tr", {}, ...cells));
  return make("div", {}, make("p", { class: "caption", "aria-hidden": "true" }, caption),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", { "aria-label": caption }, make("thead", {}, ...lines(top)), make("tbody", {}, ...lines(rows)))));
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
  const where = at ? `Rank ${count(at.rank)} of ${count(at.n)} for ${inShort(detail())}.`
    : `${detail().model} has no such text.`;
  $("told").textContent = isGuessed(row) ? `${plain(row)} added. ${where}` : "";
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
  const row = state.current, parts = row < 0 ? [] : [ranksTable(), neighboursTable(row)];
  fill($("word"), ...(state.guessing ? [guesses()] : []), ...parts.filter(Boolean));
}

function guessing(row) {
  const number = make("output", { for: "guessed" }, "50");
  const slider = make("input", { id: "guessed", type: "range", min: 0, max: 100, value: 50, "data-key": "guessed",
    oninput: event => { number.textContent = event.target.value; } });
  const see = () => { state.guesses.set(row, +slider.value); render(); };
  return make("div", {}, make("p", {}, make("label", { for: "guessed" }, "Where does ", token(row),
    ` stand for ${inShort(detail())}? 0 is the lowest of all texts, 100 the highest.`)), make("div",
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
  const shown = columns.filter(c => $("every").checked || c.prompt === $("prompt").value);
  const blank = make("td", { colspan: 2 });
  const over = state.words.map(row => make("th", { class: "left", colspan: 3, scope: "colgroup" }, token(row)));
  const under = heads(["model", "prompt", ...state.words.flatMap(() => ["rank", "percentile", "reward"])]);
  const rows = shown.map(c => [labelled(c.model), cell(c.prompt, true), ...state.words.flatMap(row => {
    const at = standing(c, row);
    if (!at) return [make("td", { colspan: 3, class: "soft" }, "no such text")];
    return [cell(count(at.rank)), make("td", { class: "bar", style: `--share:${at.percentile}%` },
      at.percentile.toFixed(1)), make("td", { title: exact(at.value) }, short(at.value))];
  })]);
  const found = table("Rank, percentile and reward: rank 1 and percentile 100 are the most rewarded, ties share the "
    + "average", [[blank, ...over], under], rows);
  found.id = "ranks";
  found.className = state.words.length > 2 ? "wide" : "";
  return found;
}

function neighboursTable(row) {
  const column = detail();
  if (!standing(column, row)) return null;
  const found = table(`Just above and below it for ${inShort(column)}`, heads(["text", "rank", "reward"]),
    neighbours(column, row).map(other => [other === row ? make("td", { class: "left" }, make("strong", {}, token(row)))
      : cell(token(other), true), cell(count(standing(column, other).rank)), cell(short(valuesOf(column)[other]))]));
  found.id = "neighbours";
  return found;
}

