// The page around a task: the time that is left, the way on when it is handed in, and a question before it is returned.
"use strict";

{
  const timer = document.getElementById("timer");
  const shown = timer.querySelector("strong");
  const spent = document.getElementById("spent");
  const stage = document.getElementById("stage");
  const told = document.getElementById("told");
  const over = document.getElementById("over");
  const ask = document.getElementById("ask");
  const frame = stage.querySelector("iframe");
  const giveBack = document.getElementById("return");
  // Counted from what the server says is left: the visitor's own clock may be wrong. Not with performance.now(), which
  // stands still while a machine sleeps.
  const began = Date.now();
  const all = Number(timer.dataset.millisecondsLeft);
  const warnings = [300_000, 60_000].filter((at) => at < all);
  let done = false;

  const tick = () => {
    const left = all - (Date.now() - began);
    shown.textContent = window.countdown(left);
    spent.value = Math.max(0, left);
    timer.classList.toggle("hurry", left < 60_000);
    if (warnings.length && left <= warnings[0]) {
      told.textContent = warnings.shift() === 60_000 ? "One minute left" : "Five minutes left";
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

  // The answer to a submission comes from our own address, inside the requester's frame; what happened is asked of the
  // server again by the form. Of all else that the frame says only one thing is listened to: that there is nothing to do.
  addEventListener("message", ({origin, source, data}) => {
    if (source === frame.contentWindow && data?.outfox === "nothing-to-do") giveBack.classList.add("primary");
    if (origin !== stage.dataset.origin || done) return;
    if (data?.outfox === "submitted" && data.assignment === stage.dataset.assignment) {
      done = true;
      clearInterval(ticking);
      told.textContent = "Handed in";
      setTimeout(() => document.getElementById("next").submit(), 900);
    } else if (data?.outfox === "leave") {
      location.assign(["/queue", "/earnings"].includes(data.to) ? data.to : "/");
    }
  });

  // Whoever works with the keyboard goes on in the task, not at the top of the page.
  const goOn = () => {
    if (document.activeElement === document.body) frame.focus();
  };
  frame.addEventListener("load", goOn);
  // The task may have been there before this script was; its document is then no longer the empty one.
  if (frame.contentDocument?.URL !== "about:blank") goOn();

  giveBack.addEventListener("click", (event) => {
    event.preventDefault();
    ask.showModal();
  });
  document.getElementById("stay").addEventListener("click", () => ask.close());
}
