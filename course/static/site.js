// The content warning on entering: once in a visit, on whichever page it begins. Where a browser keeps nothing for
// pages of a folder, it comes again on the next page.
"use strict";

const ENTERED = "content warning was read";
document.head.insertAdjacentHTML("beforeend", '<link rel="icon" href="data:,">'); // no browser asks for another one

function stored() {
  try {
    return sessionStorage.getItem(ENTERED);
  } catch {
    return null;
  }
}

function store() {
  try {
    sessionStorage.setItem(ENTERED, "yes");
  } catch {
    // a browser that keeps nothing: the warning comes again
  }
}

function warn() {
  const dialog = document.createElement("dialog");
  dialog.id = "content-warning";
  dialog.setAttribute("aria-labelledby", "content-warning-title");
  dialog.innerHTML = `<h2 id="content-warning-title">Content warning</h2>
    <p>Vocabularies hold slurs, profanities and other harmful text, and reward models rank them. Such tokens are data
    here. They are folded away as ▒▒▒ until you open one, by a click or with Enter; nothing here endorses them.</p>
    <button type="button" autofocus>Go on reading</button>`;
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => { store(); dialog.remove(); });
  document.body.append(dialog);
  dialog.showModal();
}

function reachWideOnes(selector) {
  for (const box of document.querySelectorAll(selector)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; // so that arrow keys reach what is on the right
  }
}

document.addEventListener("DOMContentLoaded", () => {
  reachWideOnes(".tokens");
  if (!stored()) warn();
});
window.addEventListener("load", () => reachWideOnes(":has(> img)"));
window.addEventListener("load", () => window.MathJax?.startup.promise.then(() => reachWideOnes("mjx-container")));
