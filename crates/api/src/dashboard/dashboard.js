// Refreshes pages: fetches the page again and replaces every element that has data-live, whose value is the refresh
// interval in milliseconds. While requests fail, the page shows a notice and keeps retrying.
"use strict";

const stale = document.getElementById("stale");

// The HTML of each live element as the server sent it. The displayed element differs: times get a title and count down.
const received = new WeakMap();

function remember(root) {
  for (const part of root.querySelectorAll("[data-live]")) received.set(part, part.outerHTML);
}

// Returns a function that moves the focus from an element of the old part to the same element of the new one, which may
// be at another position.
function saveFocus(part) {
  const focused = document.activeElement;
  if (!part.contains(focused)) return () => {};
  const name = (one) => [one.tagName, one.getAttribute("href"), one.ariaLabel, one.name, one.form?.getAttribute("action")].join();
  const alike = (root) => [...root.querySelectorAll("*")].filter((one) => name(one) === name(focused));
  const place = alike(part).indexOf(focused);
  return (fresh) => (alike(fresh)[place] ?? document.getElementById("main")).focus({ preventScroll: true });
}

// Returns a function that restores the scroll positions in the new part.
function saveScroll(part) {
  const boxes = (root) => [...root.querySelectorAll(".scroll, pre")];
  const places = boxes(part).map((one) => [one.scrollLeft, one.scrollTop]);
  return (fresh) => boxes(fresh).forEach((one, index) => one.scrollTo(...(places[index] ?? [0, 0])));
}

function update(page) {
  remember(page);
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || fresh.outerHTML === received.get(part)) continue;
    const restores = [saveScroll(part), saveFocus(part)];
    part.replaceWith(document.adoptNode(fresh));
    for (const restore of restores) restore(fresh);
  }
  showTimes(document);
  autoSubmit();
}

function setNotice(text) {
  stale.hidden = text === "";
  if (stale.textContent !== text) stale.textContent = text;
}

async function refresh() {
  try {
    if (!document.hidden) {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      if (response.redirected) return location.reload();
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (response.ok) update(page);
      setNotice(response.ok ? "" : `${page.querySelector("h1")?.textContent ?? "Request failed"}: this page is out of date. Retrying…`);
    }
  } catch {
    setNotice("Posthaste does not respond: this page is out of date. Retrying…");
  }
  scheduleRefresh();
}

// Pages without live elements are final and are not refreshed.
function scheduleRefresh() {
  const live = document.querySelector("[data-live]");
  if (live) setTimeout(refresh, Number(live.dataset.live));
}

// Adds the local time as a title to all times, and counts down to those in the future.
function showTimes(root) {
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    time.title ||= at.toLocaleString();
    if (!time.dataset.until) continue;
    const seconds = Math.ceil((at - Date.now()) / 1000);
    time.textContent = seconds > 0 ? `in ${seconds} s` : "due";
  }
}

// The result of a form gets the address of the object it shows, so that a reload does not submit the form again.
const address = document.querySelector("[data-address]")?.dataset.address;
if (address) history.replaceState(null, "", address);

// A form that is being submitted cannot be submitted again, until the user returns to the page or no response came
// within a time that is longer than the request timeout of any receiver.
const SUBMIT_TIMEOUT_MS = 30000;

function release(form) {
  delete form.dataset.sent;
  for (const button of form.querySelectorAll("button")) button.ariaDisabled = null;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "true";
  for (const button of form.querySelectorAll("button")) button.ariaDisabled = "true";
  setTimeout(() => release(form), SUBMIT_TIMEOUT_MS);
});
addEventListener("pageshow", (event) => event.persisted && document.querySelectorAll("form[data-sent]").forEach(release));

// Long operations are done in parts: the page of each part requests the next one.
function autoSubmit() {
  document.querySelector("form[data-auto-submit]")?.requestSubmit();
}

// Continues the search of a list that is not full, page by page, until enough was found or searched. The results are
// added below the list. Only the list itself is refreshed, so the search runs once.
const EXAMINED_MAX = 10000;
const FOUND_MAX = 50;

async function continueSearch(older, progress) {
  let link = document.querySelector("#list [data-continue]");
  let found = document.querySelectorAll("#list tbody tr").length;
  let examined = 0;
  let back = "";
  let failed = false;
  const many = new URLSearchParams(location.search).has("cursor") ? `older ${older.dataset.many}` : older.dataset.many;
  const end = document.createElement("p");
  end.className = "more";
  older.hidden = false;
  progress.after(end);
  const count = () => `${examined.toLocaleString("en")} ${many}${back}: ${found} found`;
  const record = (more) => {
    examined += Number(link?.dataset.continue ?? 0);
    const time = more?.querySelector("time")?.textContent;
    back = time ? `, back to ${time}` : "";
  };
  record(document.querySelector("#list .more"));
  while (link?.dataset.continue && examined < EXAMINED_MAX && found < FOUND_MAX) {
    progress.textContent = `Searching… Searched ${count()} so far.`;
    const list = await fetchList(link.href);
    failed = !list;
    if (failed) break;
    const rows = [...list.querySelectorAll("tbody tr")];
    found += rows.length;
    appendRows(older, list, rows);
    const more = list.querySelector(".more");
    link = more?.querySelector("a") ?? null;
    record(more);
  }
  progress.textContent = failed ? `Request failed. Searched ${count()}.` : link ? `Searched ${count()}.` : `Searched all ${many}: ${found} found.`;
  if (link) end.append(document.adoptNode(link));
  showTimes(document);
}

async function fetchList(address) {
  try {
    const response = await fetch(address, { headers: { accept: "text/html" } });
    if (!response.ok || response.redirected) return null;
    return new DOMParser().parseFromString(await response.text(), "text/html").getElementById("list");
  } catch {
    return null;
  }
}

// Adds rows to the table of older results, which the first rows bring with them.
function appendRows(older, list, rows) {
  const body = older.querySelector("tbody");
  if (body) return body.append(...rows.map((row) => document.adoptNode(row)));
  const table = list.querySelector(".scroll");
  if (!table) return;
  table.setAttribute("aria-label", `${table.getAttribute("aria-label")}, older results`);
  older.append(document.adoptNode(table));
  document.getElementById("older-title").hidden = false;
}

// Shows which of the newest events the form of a subscription matches, on opening and while the inputs are edited.
const MATCH_DELAY_MS = 300;
const MATCH_INPUTS = ["event_types", "filter", "tenant"];

function watchMatches(form, matches) {
  let timer = 0;
  let newest = 0;
  const input = (name) => form.elements.namedItem(name);
  // The error of an input belongs to it only after it was edited: the server may have reported another one.
  const mark = () => {
    for (const name of MATCH_INPUTS) {
      const error = matches.querySelector(`[data-field=${name}]`);
      input(name).removeAttribute("aria-invalid");
      input(name).removeAttribute("aria-describedby");
      if (!error) continue;
      input(name).setAttribute("aria-invalid", "true");
      input(name).setAttribute("aria-describedby", error.id);
    }
  };
  const load = async (isEdited) => {
    const turn = ++newest;
    const names = ["token", ...MATCH_INPUTS];
    const body = new URLSearchParams([["part", "matches"], ...names.map((name) => [name, input(name).value])]);
    const response = await fetch(form.dataset.matches, { method: "POST", body, headers: { accept: "text/html" } }).catch(() => null);
    const text = response?.ok && !response.redirected ? await response.text().catch(() => null) : null;
    // A response to older input must not replace a newer one.
    if (turn !== newest) return;
    if (text === null) return (matches.textContent = "The matching events could not be loaded.");
    matches.replaceChildren(...new DOMParser().parseFromString(text, "text/html").body.childNodes);
    showTimes(matches);
    if (isEdited) mark();
  };
  form.addEventListener("input", (event) => {
    if (!MATCH_INPUTS.includes(event.target.name)) return;
    clearTimeout(timer);
    timer = setTimeout(load, MATCH_DELAY_MS, true);
  });
  load(false);
}

remember(document);
showTimes(document);
setInterval(() => showTimes(document), 1000);
scheduleRefresh();
autoSubmit();
const older = document.getElementById("older");
if (older) continueSearch(older, document.getElementById("search-progress"));
const matching = document.querySelector("form[data-matches]");
if (matching) watchMatches(matching, document.getElementById("matches"));
