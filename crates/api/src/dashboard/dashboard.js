// Keeps a page fresh: asks for it again every so often and puts what came in place of every part that has
// data-live, whose value is the pause in milliseconds. When no answer comes the page says so, and goes on
// by itself as soon as there is one.
"use strict";

const away = document.getElementById("away");

// What has the focus keeps it, though its element is a new one.
function focusOf(part) {
  const focused = document.activeElement;
  if (!part.contains(focused)) return () => {};
  const all = "a, button, input, select, [tabindex]";
  const place = [...part.querySelectorAll(all)].indexOf(focused);
  return (fresh) => fresh.querySelectorAll(all)[place]?.focus();
}

function put(page) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || fresh.innerHTML === part.innerHTML) continue;
    const focus = focusOf(part);
    part.replaceWith(document.adoptNode(fresh));
    focus(fresh);
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

show(document);
setInterval(() => show(document), 1000);
again();
goOn();
const further = document.getElementById("further");
if (further) lookFurther(further, document.getElementById("looking"));
