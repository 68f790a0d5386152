/* The numbers: the block that the page carries, its columns, and ranks in them. Nothing here draws or asks.
   A row is the number of a text on this page; a column holds one number per row, NaN where it has none. */
"use strict";

const NEAR = 5; // neighbours on each side
let data, texts, keys, columns;

/* --- the block --------------------------------------------------------------------------------------------------- */

async function unpack(base64) {
  const raw = atob(base64), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer(), length = new Uint32Array(buffer, 0, 1)[0];
  const block = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  block.array = {};
  for (const { name, count } of block.arrays) {
    block.array[name] = new Float32Array(buffer, at, count);
    at += 4 * count;
  }
  return block;
}

/* --- columns and ranks ------------------------------------------------------------------------------------------- */

const inShort = c => `${c.model}, ${c.prompt}`;
const columnOf = (model, prompt) => columns.find(c => c.model === model && c.prompt === prompt);
const valuesOf = column => data.array[column.array];

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

/* The rows that a column has a number for, highest first. Made once, when first asked for. */
function orderOf(column) {
  if (!column.order) {
    const values = valuesOf(column), rows = [...values.keys()].filter(row => values[row] === values[row]);
    column.order = Int32Array.from(rows.sort((a, b) => values[b] - values[a] || a - b));
  }
  return column.order;
}

/* Up to NEAR texts above and below a row, in order of the column, with itself. */
function neighbours(column, row) {
  const order = orderOf(column), at = order.indexOf(row);
  return [...order.subarray(Math.max(0, at - NEAR), at + NEAR + 1)];
}

const short = value => value !== value ? "" : Math.abs(value) >= 1000 ? value.toFixed(0) : value.toPrecision(4);
const inWords = new Intl.NumberFormat("en", { maximumFractionDigits: 1 }); // made once, because that takes long
const count = value => inWords.format(value);
function exact(value) { // the shortest decimal that is this float32
  for (let digits = 6; digits < 9; digits++)
    if (Math.fround(+value.toPrecision(digits)) === value) return String(+value.toPrecision(digits));
  return value === value ? String(+value.toPrecision(9)) : "";
}

