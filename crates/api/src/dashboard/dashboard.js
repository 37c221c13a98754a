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

show(document);
setInterval(() => show(document), 1000);
again();

// A long work is done in parts; each part's page sends for the next.
document.querySelector("form[data-goes-on]")?.requestSubmit();
