/* The page: its state, the table, the address, the controls. The other scripts hold what these show.
   No library, and nothing is asked for over a network. */
"use strict";

const PAGE = 20;
const state = { words: [], current: -1, guesses: new Map(), guessing: false, revealed: new Set(), revealAll: false,
  start: 0 };
let offensive;

/* --- the table of all texts --------------------------------------------------------------------------------------- */

function renderTable() {
  const column = detail(), rows = orderOf(column);
  state.start = Math.max(0, Math.min(state.start, Math.floor((rows.length - 1) / PAGE) * PAGE));
  const some = [...rows.subarray(state.start, state.start + PAGE)];
  $("previous").disabled = !state.start;
  $("next").disabled = state.start + PAGE >= rows.length;
  const what = `${inShort(column)}: texts ${Math.min(state.start + 1, rows.length)}–${state.start + some.length} of `
    + `${count(rows.length)}, most rewarded first`;
  fill($("table"), table(what, heads(["text", "rank", "reward"]), some.map(row =>
    [cell(token(row), true), cell(count(standing(column, row).rank)), cell(short(valuesOf(column)[row]))])));
}

/* --- controls ---------------------------------------------------------------------------------------------------- */

function render() { // after another word, model or prompt, or a blurred one revealed
  renderWords();
  renderTable();
  writeAddress();
}

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
    list.replaceChildren(...offered.map((row, i) => {
      const chosen = event => { event.preventDefault(); take(row); };
      return make("li", { id: `found-${i}`, role: "option", class: "token", "aria-selected": String(i === at),
        onpointerdown: chosen }, plain(row));
    }));
  };
  const close = () => { offered = []; at = -1; show(); };
  const take = row => { input.value = ""; close(); add(row); };
  input.addEventListener("input", () => {
    offered = matches(input.value).filter(row => !isBlurred(row)).slice(0, 8);
    at = -1;
    show();
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", event => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && offered.length) { event.preventDefault(); at = (at + step + offered.length) % offered.length; show(); }
    if (event.key === "Escape") close();
  });
  $("form").addEventListener("submit", event => {
    event.preventDefault();
    const key = input.value.trim().toLowerCase();
    const row = at >= 0 ? offered[at] : matches(input.value).find(found => keys[found] === key);
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
  press("theme", isDark => { theme(isDark); });
  press("large", isLarge => { root.dataset.size = isLarge ? "large" : ""; });
  press("reveal", all => { state.revealAll = all; if (!all) state.revealed.clear(); render(); });
  press("guess", on => { state.guessing = on; state.guesses.clear(); render(); });
  for (const [id, step] of [["previous", -PAGE], ["next", PAGE]])
    $(id).addEventListener("click", () => { state.start += step; renderTable(); });
  for (const id of ["model", "prompt", "every"])
    $(id).addEventListener("change", () => { state.start = 0; render(); });
  document.addEventListener("keydown", event => {
    if (event.key !== "/" || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    $("search").focus();
  });
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
}

async function open() {
  if (!("DecompressionStream" in window)) {
    $("ready").textContent = "This browser cannot unpack the page: open it in Chrome or Edge 80, Firefox 113, "
      + "Safari 16.4, or any later.";
    return;
  }
  data = await unpack($("block").textContent);
  $("block").textContent = "";
  ({ texts, columns } = data);
  keys = texts.map(text => text.trim().toLowerCase());
  offensive = new Set(data.offensive);
  $("page").hidden = false;
  fillChoices();
  controls();
  search();
  renderWords();
  renderTable();
  readAddress();
  $("ready").textContent = "";
  document.documentElement.dataset.ready = "true";
}

open();
