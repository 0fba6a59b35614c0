// The page of a HIT: consent where it is needed, then the work, then the form that hands it in on the marketplace.

import {Beats, Timer} from "./work-clock.js";
import {Items} from "./work-items.js";
import {Line, Trouble, untilDone} from "./work-line.js";
import {Quiz} from "./work-quiz.js";
import {
  at, clearTrouble, dollars, isBusy, once, openDialog, remembered, say, showScreen, showTrouble, tell, untilClosed,
} from "./work-shell.js";

const setup = JSON.parse(at("setup").textContent);
// Others than those that were read show again.
const READ_FOR = setup.kind === "validate" ? "check" : "write";
const INSTRUCTIONS = `outfox.instructions.${setup.task.title}.${READ_FOR}.${setup.task.instructions_html.length}`;
const REFUSED = "That is all right. Return this HIT on the marketplace; nothing is held against you.";
const UNFORESEEN = "Something failed on this page. Load it again; what was stored before is safe.";
const A_MOMENT_MS = 1_000;

class Page {
  constructor() {
    this.setup = setup;
    this.line = new Line(setup.api, setup.token);
    this.timer = new Timer(() => this.timeIsUp());
    this.work = setup.kind === "quiz" ? new Quiz(this) : new Items(this);
  }

  async open() {
    this.dress();
    at("loading").hidden = true;
    at("work").hidden = false;
    if (setup.preview) this.state = sampleState();
    else await this.load();
    if (this.leave()) return;
    // Who has begun has read them.
    if (this.state.items.some((one) => one.draft || one.done || one.tries_used)) at("instructions").open = false;
    await this.work.open();
    showScreen("ready");
    if (setup.preview) {
      for (const button of document.querySelectorAll(".work-side button")) button.disabled = true;
      return;
    }
    this.watch();
  }

  async load() {
    this.state = await this.insist(() => this.line.get("/state"));
  }

  // The server's clock decides; while it cannot be asked, ours does.
  async timeIsUp() {
    try {
      this.state = await this.line.get("/state");
    } catch {
      this.state.status = "expired";
    }
    if (!this.leave()) setTimeout(() => this.timer.set(this.state), A_MOMENT_MS);
  }

  // The state as it is on the server now; another tab may have changed it.
  async reload() {
    await this.load();
    if (!this.leave()) {
      this.timer.set(this.state);
      this.drawPay();
    }
  }

  // Whether the HIT is not to be worked on any more, in which case another screen says so.
  leave() {
    const screen = {submitted: "submitted", confirmed: "submitted", expired: "over", unconfirmed: "over"}[this.state.status];
    if (!screen) return false;
    this.timer.stop();
    this.beats?.stop();
    at("submit-again").onclick = () => once(() => this.finish().catch((trouble) => tell(trouble.message)));
    showScreen(screen);
    return true;
  }

  watch() {
    this.timer.set(this.state);
    this.beats = new Beats(this.line, this.state.active_ms ?? 0);
    this.drawPay();
    const look = async () => {
      if (document.visibilityState !== "visible" || isBusy() || document.body.dataset.state !== "ready") return;
      try {
        const state = await this.line.get("/state");
        if (isBusy()) return;
        this.state = state;
        if (!this.leave()) this.work.refreshed();
      } catch {
        // The next call tells.
      }
    };
    document.addEventListener("visibilitychange", look);
    addEventListener("pageshow", ({persisted}) => { if (persisted) look(); });
    addEventListener("pagehide", () => this.work.leave?.());
    at("report").onclick = () => { say(at("report-trouble"), ""); openDialog("report-dialog"); };
    at("report-send").onclick = () => this.report();
    at("trouble-close").onclick = clearTrouble;
  }

  async report() {
    const text = at("report-text").value.trim();
    if (!text) {
      say(at("report-trouble"), "Write a sentence that tells what is wrong.");
      at("report-text").focus();
      return;
    }
    await once(async () => {
      try {
        const item = this.work.item?.item;
        await this.line.post(item === undefined ? "/report" : `/items/${item}/report`, {text});
        at("report-dialog").close();
        tell("Thank you. The owner of the task reads what you wrote.");
      } catch (trouble) {
        say(at("report-trouble"), trouble.message);
      }
    });
  }

  // Does it until it works, and says meanwhile why it takes so long.
  async insist(act) {
    let waited = false;
    const answer = await untilDone(act, ({message}) => { waited = true; showTrouble(message); });
    if (waited) clearTrouble();
    return answer;
  }

  // What cannot be: told, with a way on; what is on the server now shows again.
  async failed(trouble, again = null) {
    if (!(trouble instanceof Trouble)) {
      showTrouble(UNFORESEEN, () => location.reload());
      throw trouble;
    }
    if (trouble.kind === "over") {
      this.state.status = "expired";
      say(at("over-text"), trouble.message);
      this.leave();
      return;
    }
    showTrouble(trouble.message, trouble.retry ? again : null);
    try {
      this.state = await this.line.get("/state");
      // Whoever writes something else meanwhile has read it; that the text is another one now is news to them as well.
      const isNews = !at("trouble").hidden || trouble.kind === "changed";
      if (!this.leave()) this.work.refreshed();
      if (isNews) showTrouble(trouble.message, trouble.retry ? again : null);
    } catch {
      // Nothing newer is known.
    }
  }

  // The HIT is handed in here first and then, by a plain form, on the marketplace.
  async finish() {
    const {submit} = await this.insist(() => this.line.post("/finish"));
    this.state.status = "submitted";
    this.leave();
    const form = Object.assign(document.createElement("form"), {method: "post", action: submit.url, hidden: true});
    for (const [name, value] of Object.entries(submit.fields)) {
      form.append(Object.assign(document.createElement("input"), {type: "hidden", name, value}));
    }
    document.body.append(form);
    form.submit();
  }

  drawPay() {
    const {reward_cents: reward, bonus_cents: bonus} = this.state.earned;
    say(at("pay-reward"), dollars(reward));
    if (at("pay-bonus")) {
      const each = `+ ${dollars(setup.pay.bonus_cents)} for each example that fools the model, once others agree with it`;
      say(at("pay-bonus"), bonus ? `+ ${dollars(bonus)} once others agree with what you handed in` : each);
    }
  }

  rememberInstructions(open) {
    remembered.set(INSTRUCTIONS, open ? "open" : "closed");
  }

  dress() {
    const instructions = at("instructions");
    instructions.open = remembered.get(INSTRUCTIONS) !== "closed";
    // On a phone a wide table scrolls by itself; whoever has only a keyboard must get there too.
    for (const table of instructions.querySelectorAll("table")) table.tabIndex = 0;
    at("instructions-close").onclick = () => {
      instructions.open = false;
      this.rememberInstructions(false);
      instructions.querySelector("summary").focus();
      instructions.scrollIntoView({block: "nearest"});
    };
    instructions.querySelector("summary").addEventListener("click", () => this.rememberInstructions(!instructions.open));
    // The editor takes keys anywhere in the page for itself, also Enter on our buttons.
    for (const place of document.querySelectorAll(".work-bar, .work-side, .work-alone, .work-instructions, #items, #span, dialog")) {
      place.addEventListener("keydown", (event) => event.stopPropagation());
    }
    this.state = {earned: {reward_cents: setup.pay.reward_cents, bonus_cents: 0}};
    this.drawPay();
  }
}

const sampleState = () => {
  const item = {item: 0, task: setup.sample.task, tries_used: 0, may_skip: false, done: false, draft: null, verdicts: []};
  const items = setup.sample.items ?? [item];
  const earned = {reward_cents: setup.pay.reward_cents, bonus_cents: 0};
  return {status: "open", items, tries: 0, tries_before_skip: 0, earned, missing: "", quiz: null};
};

// Nothing of the task is shown or loaded before its warning was read.
const consented = () => new Promise((agreed) => {
  // The address names the worker and the assignment: whoever works next in this window is asked again.
  const known = `outfox.consent.${location.pathname}${location.search}`;
  if (!setup.task.consent || untilClosed.get(known) === "yes") {
    agreed();
    return;
  }
  showScreen("consent");
  at("consent-yes").onclick = () => {
    untilClosed.set(known, "yes");
    showScreen("loading");
    agreed();
  };
  at("consent-no").onclick = () => say(at("consent-refused"), REFUSED);
});

const scheme = matchMedia("(prefers-color-scheme: dark)");
const paint = () => { document.documentElement.dataset.colorScheme = scheme.matches ? "dark" : "light"; };
scheme.addEventListener("change", paint);
paint();

at("error-again").onclick = () => location.reload();
// Only the page around this one can give the HIT back. Ours shows its button plainly then; another hears nothing of it.
if (setup.error?.give_back) window.parent.postMessage({outfox: "nothing-to-do"}, "*");
if (!setup.error) {
  await consented();
  try {
    await new Page().open();
  } catch (trouble) {
    if (trouble instanceof Trouble) say(at("error-text"), trouble.message);
    showScreen("error");
    if (!(trouble instanceof Trouble)) throw trouble;
  }
}
