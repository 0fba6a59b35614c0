// The page around a task: the remaining time, what follows a submission, and a confirmation before a return.

import {gettext} from "./translation.js";

// Time to read what happens to the submission, before the next page.
const TO_READ_MS = 2_500;

{
  const timer = document.getElementById("timer");
  const shown = timer.querySelector("strong");
  const spent = document.getElementById("spent");
  const stage = document.getElementById("stage");
  const status = document.getElementById("status");
  const over = document.getElementById("over");
  const ask = document.getElementById("ask");
  const frame = stage.querySelector("iframe");
  const returnLink = document.getElementById("return");
  // Counted from the remaining time that the server sent: the visitor's clock may be wrong. Not with performance.now(),
  // which pauses while a machine sleeps.
  const began = Date.now();
  const all = Number(timer.dataset.millisecondsLeft);
  const warnings = [300_000, 60_000].filter((at) => at < all);
  let done = false;
  // What was submitted before was read by then; it is under Earnings too.
  setTimeout(() => document.getElementById("notice")?.remove(), 10_000);

  const tick = () => {
    const left = all - (Date.now() - began);
    shown.textContent = window.countdown(left);
    spent.value = Math.max(0, left);
    timer.classList.toggle("hurry", left < 60_000);
    if (warnings.length && left <= warnings[0]) {
      status.textContent = warnings.shift() === 60_000 ? gettext("One minute left") : gettext("Five minutes left");
    }
    if (left <= 0 && !done) {
      clearInterval(ticking);
      ask.close();
      over.hidden = false;
      over.querySelector("a").focus();
    }
  };
  const ticking = setInterval(tick, 250);
  tick();

  // The response to a submission has our own origin, inside the requester's frame; the form below checks with the server
  // what happened. Of other messages from the frame, only one is accepted: that there is nothing to do.
  addEventListener("message", ({origin, source, data}) => {
    if (source === frame.contentWindow && data?.outfox === "nothing-to-do") returnLink.classList.add("primary");
    if (origin !== stage.dataset.origin || done) return;
    if (data?.outfox === "submitted" && data.assignment === stage.dataset.assignment) {
      done = true;
      clearInterval(ticking);
      status.textContent = gettext("Submitted");
      setTimeout(() => document.getElementById("next").submit(), TO_READ_MS);
    } else if (data?.outfox === "leave") {
      location.assign(["/queue", "/earnings"].includes(data.to) ? data.to : "/");
    }
  });

  // Keyboard users continue in the task, not at the top of the page.
  const focusTask = () => {
    if (document.activeElement === document.body) frame.focus();
  };
  frame.addEventListener("load", focusTask);
  // The task may have loaded before this script ran; its document is then no longer the empty one.
  if (frame.contentDocument?.URL !== "about:blank") focusTask();

  returnLink.addEventListener("click", (event) => {
    event.preventDefault();
    ask.showModal();
  });
  document.getElementById("stay").addEventListener("click", () => ask.close());
}
