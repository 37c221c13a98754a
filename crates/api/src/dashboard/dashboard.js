// Keeps a page fresh: asks for it again every so often and puts what came in place of every part that has
// data-live, whose value is the pause in milliseconds. When no answer comes the page says so, and goes on
// by itself as soon as there is one.
"use strict";

const away = document.getElementById("away");

// What the server wrote of a part. What is shown differs from it: times have a title, and count down.
const written = new WeakMap();

function remember(root) {
  for (const part of root.querySelectorAll("[data-live]")) written.set(part, part.outerHTML);
}

// What has the focus keeps it, though its element is a new one and may stand in another place.
function focusOf(part) {
  const focused = document.activeElement;
  if (!part.contains(focused)) return () => {};
  const name = (one) => [one.tagName, one.getAttribute("href"), one.ariaLabel, one.name, one.form?.getAttribute("action")].join();
  const alike = (root) => [...root.querySelectorAll("*")].filter((one) => name(one) === name(focused));
  const place = alike(part).indexOf(focused);
  return (fresh) => (alike(fresh)[place] ?? document.getElementById("main")).focus({ preventScroll: true });
}

// What was scrolled stays where it is.
function scrollOf(part) {
  const boxes = (root) => [...root.querySelectorAll(".scroll, pre")];
  const places = boxes(part).map((one) => [one.scrollLeft, one.scrollTop]);
  return (fresh) => boxes(fresh).forEach((one, index) => one.scrollTo(...(places[index] ?? [0, 0])));
}

function put(page) {
  remember(page);
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || fresh.outerHTML === written.get(part)) continue;
    const again = [scrollOf(part), focusOf(part)];
    part.replaceWith(document.adoptNode(fresh));
    for (const restore of again) restore(fresh);
  }
  show(document);
  goOn();
}

function tell(text) {
  away.hidden = text === "";
  if (away.textContent !== text) away.textContent = text;
}

async function refresh() {
  try {
    if (!document.hidden) {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.redirected) return location.reload();
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.ok) put(page);
      tell(answer.ok ? "" : `${page.querySelector("h1")?.textContent ?? "No answer"}: what you see is old. Trying again…`);
    }
  } catch {
    tell("Posthaste does not answer: what you see is old. Trying again…");
  }
  again();
}

// A page on which nothing is live any more has come to its end.
function again() {
  const live = document.querySelector("[data-live]");
  if (live) setTimeout(refresh, Number(live.dataset.live));
}

// Times are told in the reader's own zone too, and what is still to come counts down.
function show(root) {
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    time.title ||= at.toLocaleString();
    if (!time.dataset.until) continue;
    const seconds = Math.ceil((at - Date.now()) / 1000);
    time.textContent = seconds > 0 ? `in ${seconds} s` : "is due";
  }
}

// The answer to a form takes the address of what it shows: loading it again repeats nothing.
const address = document.querySelector("[data-address]")?.dataset.address;
if (address) history.replaceState(null, "", address);

// What is pressed twice is sent once. It can be pressed again when somebody comes back to the page, or when the
// answer stayed away for longer than any receiver may take.
const SENT_MS = 30000;

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
  setTimeout(() => release(form), SENT_MS);
});
addEventListener("pageshow", (event) => event.persisted && document.querySelectorAll("form[data-sent]").forEach(release));

// A long work is done in parts; each part's page sends for the next.
function goOn() {
  document.querySelector("form[data-goes-on]")?.requestSubmit();
}

// A list that is not full looks further by itself, one look after the other, until it is full or enough was looked
// through. What it finds stands below the list; only the list itself is kept fresh, so a search is made once.
const LOOKED_MAX = 10000;
const FOUND_MAX = 50;

async function lookFurther(further, looking) {
  let link = document.querySelector("#list [data-further]");
  let found = document.querySelectorAll("#list tbody tr").length;
  let looked = 0;
  let back = "";
  let broke = false;
  const many = new URLSearchParams(location.search).has("cursor") ? `older ${further.dataset.many}` : further.dataset.many;
  const end = document.createElement("p");
  end.className = "more";
  further.hidden = false;
  looking.after(end);
  const count = () => `${looked.toLocaleString("en")} ${many}${back}: ${found} found`;
  const take = (more) => {
    looked += Number(link?.dataset.further ?? 0);
    const time = more?.querySelector("time")?.textContent;
    back = time ? `, back to ${time}` : "";
  };
  take(document.querySelector("#list .more"));
  while (link?.dataset.further && looked < LOOKED_MAX && found < FOUND_MAX) {
    looking.textContent = `Looking further. Looked through ${count()} so far…`;
    const list = await lookAt(link.href);
    broke = !list;
    if (broke) break;
    const rows = [...list.querySelectorAll("tbody tr")];
    found += rows.length;
    add(further, list, rows);
    const more = list.querySelector(".more");
    link = more?.querySelector("a") ?? null;
    take(more);
  }
  looking.textContent = broke ? `No answer. Looked through ${count()}.` : link ? `Looked through ${count()}.` : `Looked through all ${many}: ${found} found.`;
  if (link) end.append(document.adoptNode(link));
  show(document);
}

async function lookAt(address) {
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (!answer.ok || answer.redirected) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("list");
  } catch {
    return null;
  }
}

// The first rows bring their table along.
function add(further, list, rows) {
  const body = further.querySelector("tbody");
  if (body) return body.append(...rows.map((row) => document.adoptNode(row)));
  const table = list.querySelector(".scroll");
  if (!table) return;
  table.setAttribute("aria-label", `${table.getAttribute("aria-label")} further back`);
  further.append(document.adoptNode(table));
}

remember(document);
show(document);
setInterval(() => show(document), 1000);
again();
goOn();
const further = document.getElementById("further");
if (further) lookFurther(further, document.getElementById("looking"));
