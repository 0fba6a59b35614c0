// Time: how much is left until the deadline, and how much of it was spent on the work.

import {announce, at, setText} from "./work-screen.js";
import {gettext} from "./translation.js";

const SECOND = 1_000;
const IDLE_MS = 30 * SECOND;
const HEARTBEAT_MS = 15 * SECOND;
const HURRY_MS = 60 * SECOND;
const WARNINGS = [[300 * SECOND, gettext("Five minutes left")], [HURRY_MS, gettext("One minute left")]];
const SIGNS = ["keydown", "pointerdown", "pointermove", "wheel", "touchmove", "input"];

const written = (ms) => {
  const seconds = Math.max(0, Math.ceil(ms / SECOND));
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60];
  const rest = [hours ? String(minutes).padStart(2, "0") : minutes, String(seconds % 60).padStart(2, "0")];
  return (hours ? [hours, ...rest] : rest).join(":");
};

// Counts down to the server's deadline by the server's clock; the visitor's own may be wrong.
export class Timer {
  constructor(onOver) {
    this.onOver = onOver;
    this.ticking = null;
  }

  set({now, deadline}) {
    // Not performance.now(), which stops while a machine sleeps.
    this.ends = Date.now() + (Date.parse(deadline) - Date.parse(now));
    this.warnings = WARNINGS.filter(([before]) => before < this.left());
    this.ticking ??= setInterval(() => this.tick(), SECOND / 4);
    this.tick();
  }

  stop() {
    clearInterval(this.ticking);
    this.ticking = null;
  }

  left() {
    return this.ends - Date.now();
  }

  tick() {
    const left = this.left();
    setText(at("timer"), written(left));
    at("clock").classList.toggle("hurry", left < HURRY_MS);
    while (this.warnings.length && left <= this.warnings[0][0]) {
      const [, warning] = this.warnings.shift();
      // The clock of the page around a frame says it.
      if (!document.documentElement.hasAttribute("data-framed")) announce(warning);
    }
    if (left <= 0) {
      this.stop();
      this.onOver();
    }
  }
}

// Counts how long the page was visible and used, and reports it to the server.
export class ActiveTime {
  constructor(client, soFar) {
    this.client = client;
    this.active = soFar;
    this.sent = soFar;
    this.lastSign = Date.now();
    this.lastLook = Date.now();
    for (const sign of SIGNS) {
      addEventListener(sign, () => { this.look(); this.lastSign = Date.now(); }, {passive: true, capture: true});
    }
    this.interval = setInterval(() => this.send(), HEARTBEAT_MS);
    addEventListener("pagehide", () => this.send());
    document.addEventListener("visibilitychange", () => this.send());
  }

  look() {
    const now = Date.now();
    const used = Math.min(now, this.lastSign + IDLE_MS) - this.lastLook;
    if (used > 0 && this.seen !== false) this.active += used;
    this.lastLook = now;
    this.seen = document.visibilityState === "visible";
  }

  // Returns the total until now, for a call that finishes an item.
  count() {
    this.look();
    return Math.round(this.active);
  }

  send() {
    this.look();
    if (this.active === this.sent) return;
    const sent = this.active;
    // What does not arrive is sent with the next heartbeat.
    this.client.post("/beat", {active_ms: Math.round(sent)}, {keepalive: true})
      .then(({active_ms: known}) => { this.sent = sent; this.learn(known); }, () => {});
  }

  // The same HIT may be open in another window, which counts too: this one goes on from the server's total.
  learn(known) {
    if (known > this.active) this.active = this.sent = known;
  }

  stop() {
    clearInterval(this.interval);
  }
}
