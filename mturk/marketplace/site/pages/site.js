// Times in the visitor's time zone, countdowns and copying; every page works without it.

import {gettext, pageLanguage} from "./translation.js";

const clock = new Intl.DateTimeFormat(pageLanguage, {month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23"});
const day = new Intl.DateTimeFormat(pageLanguage, {month: "short", day: "numeric"});
for (const time of document.querySelectorAll("time[data-as]")) {
  time.textContent = (time.dataset.as === "day" ? day : clock).format(new Date(time.dateTime));
}

// The server's format: 1:02:03, or 02:03.
window.countdown = (milliseconds) => {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${two(minutes)}:${two(rest)}`;
};

const running = document.querySelectorAll("span[data-milliseconds-left]");
if (running.length) {
  // Not performance.now(), which pauses while a machine sleeps.
  const began = Date.now();
  setInterval(() => {
    for (const one of running) {
      one.textContent = window.countdown(one.dataset.millisecondsLeft - (Date.now() - began));
    }
  }, 500);
}

// A frame has the height that its requester asked for; otherwise it fills the window.
for (const frame of document.querySelectorAll("iframe[data-height]")) {
  frame.parentElement.style.minHeight = `${frame.dataset.height}px`;
}

// A double click is one click: two would take two tasks.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});

// A notice is not shown again when the page is reloaded.
const here = new URL(location.href);
if (here.searchParams.has("said")) {
  for (const name of ["said", "of"]) here.searchParams.delete(name);
  history.replaceState(null, "", here);
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const field = document.getElementById(button.dataset.copy);
    field.select();
    await navigator.clipboard.writeText(field.value);
    button.textContent = gettext("Copied");
  });
}
