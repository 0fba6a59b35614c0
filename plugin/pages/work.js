// The page of a HIT: consent if needed, then the work, then the form that submits it on the marketplace.

import {ActiveTime, Timer} from "./work-clock.js";
import {Instructions} from "./work-instructions.js";
import {Items} from "./work-items.js";
import {ApiClient, ApiError, retryUntilDone} from "./work-api.js";
import {Quiz} from "./work-quiz.js";
import {
  announce, at, browserKey, clearError, isBusy, keepFieldInView, once, openDialog, setText, showError, showScreen, tabMemory,
} from "./work-screen.js";
import {gettext, money} from "./translation.js";

const setup = JSON.parse(at("setup").textContent);
const REFUSED = gettext("That is all right. Return this HIT on the marketplace; nothing is held against you.");
const UNFORESEEN = gettext("Something failed on this page. Load it again; what was stored before is safe.");
const NO_PROBLEM = gettext("Write a sentence that says what is wrong.");
const REPORTED = gettext("Thank you. The owner of the task reads what you wrote.");
const A_MOMENT_MS = 1_000;

// Only the page around this one can return the HIT. Our marketplace highlights its button; others ignore the message.
const offerReturn = () => window.parent.postMessage({outfox: "nothing-to-do"}, "*");

// What a button can do about an error, by the action of its hint.
const HINTS = {
  reload_page: [gettext("Load the page again"), () => location.reload()],
  skip_item: [gettext("Skip this text"), () => at("skip").click()],
  submit_hit: [gettext("Submit the HIT"), () => at("submit").click()],
};

class Page {
  constructor() {
    this.setup = setup;
    this.client = new ApiClient(setup.api, setup.token, setup.preview ? "" : browserKey());
    this.timer = new Timer(() => this.timeIsUp());
    this.instructions = new Instructions(this.client, setup);
    this.work = setup.kind === "quiz" ? new Quiz(this) : new Items(this);
  }

  async open() {
    this.dress();
    at("loading").hidden = true;
    at("work").hidden = false;
    if (setup.preview) this.state = sampleState();
    else await this.load();
    if (this.leave()) return;
    if (this.state.empty) {
      this.offerSubmit();
      return;
    }
    await this.work.open();
    showScreen("ready");
    this.instructions.openOnce();
    if (setup.preview) {
      for (const button of document.querySelectorAll(".work-side button")) button.disabled = true;
      return;
    }
    this.watch();
  }

  async load() {
    this.state = await this.withRetries(() => this.client.get("/state"));
  }

  // The server's clock decides; if the server cannot be reached, ours does.
  async timeIsUp() {
    try {
      this.state = await this.client.get("/state");
    } catch {
      this.state.status = "expired";
    }
    if (!this.leave()) setTimeout(() => this.timer.set(this.state), A_MOMENT_MS);
  }

  // The HIT holds nothing, and is paid: there is nothing to do but to submit it.
  offerSubmit() {
    at("nothing-submit").onclick = () => once(() => this.finish().catch(({message}) => announce(message)));
    showScreen("nothing");
  }

  // Loads the state from the server; another tab may have changed it.
  async reload() {
    await this.load();
    if (!this.leave()) {
      this.timer.set(this.state);
      this.drawPay();
    }
  }

  // Shows another screen and returns true if the HIT cannot be worked on now.
  leave() {
    const screen = {submitted: "submitted", confirmed: "submitted", expired: "over", unconfirmed: "over"}[this.state.status];
    if (!screen) return false;
    this.timer.stop();
    this.activeTime?.stop();
    at("submit-again").onclick = () => once(() => this.finish().catch((error) => announce(error.message)));
    showScreen(screen);
    return true;
  }

  watch() {
    this.timer.set(this.state);
    this.activeTime = new ActiveTime(this.client, this.state.active_ms ?? 0);
    this.drawPay();
    const look = async () => {
      if (document.visibilityState !== "visible" || isBusy() || document.body.dataset.state !== "ready") return;
      try {
        const state = await this.client.get("/state");
        this.activeTime.learn(state.active_ms);
        if (isBusy()) return;
        this.state = state;
        if (!this.leave()) this.work.refreshed();
      } catch {
        // The next call shows the error.
      }
    };
    document.addEventListener("visibilitychange", look);
    addEventListener("pageshow", ({persisted}) => { if (persisted) look(); });
    addEventListener("pagehide", () => this.work.leave?.());
    at("report").onclick = () => { setText(at("report-trouble"), ""); openDialog("report-dialog"); };
    at("report-send").onclick = () => this.report();
    at("trouble-close").onclick = clearError;
  }

  async report() {
    const text = at("report-text").value.trim();
    if (!text) {
      setText(at("report-trouble"), NO_PROBLEM);
      at("report-text").focus();
      return;
    }
    await once(async () => {
      try {
        const item = this.work.item?.item;
        await this.client.post(item === undefined ? "/report" : `/items/${item}/report`, {text});
        at("report-dialog").close();
        announce(REPORTED);
      } catch (error) {
        setText(at("report-trouble"), error.message);
      }
    });
  }

  // Calls `act` until it succeeds, and shows meanwhile why it takes longer.
  async withRetries(act) {
    let waited = false;
    const answer = await retryUntilDone(act, ({message}) => { waited = true; showError(message); });
    if (waited) clearError();
    return answer;
  }

  // Shows an error with what the worker can do, and the present state of the server.
  async failed(error, again = null) {
    if (!(error instanceof ApiError)) {
      showError(UNFORESEEN, () => location.reload());
      throw error;
    }
    if (error.kind === "over") {
      this.state.status = "expired";
      setText(at("over-text"), error.message);
      this.leave();
      return;
    }
    this.show(error, again);
    try {
      this.state = await this.client.get("/state");
      // A worker who continues to write has read the error; a changed text is news in any case.
      const isNews = !at("trouble").hidden || error.kind === "changed";
      if (!this.leave()) this.work.refreshed();
      if (isNews) this.show(error, again);
    } catch {
      // Nothing newer is known.
    }
  }

  // The error's hint as a button, or a retry; a HIT that others wait for is offered to be returned.
  show({message, retry, hint}, again) {
    const [label, action] = HINTS[hint?.action] ?? [];
    if (hint?.action === "return_hit") offerReturn();
    if (action) showError(message, action, label);
    else showError(message, retry ? again : null);
  }

  // The HIT is submitted here first and then, by a plain form, on the marketplace.
  async finish() {
    const {submit} = await this.withRetries(() => this.client.post("/finish"));
    this.state.status = "submitted";
    this.leave();
    const form = Object.assign(document.createElement("form"), {method: submit.method, action: submit.url, hidden: true});
    for (const [name, value] of Object.entries(submit.fields)) {
      form.append(Object.assign(document.createElement("input"), {type: "hidden", name, value}));
    }
    document.body.append(form);
    form.submit();
  }

  drawPay() {
    const {reward_cents: reward, bonus_cents: bonus} = this.state.earned;
    setText(at("pay-reward"), money(reward));
    if (at("pay-bonus")) {
      const [amount, each] = [money(bonus), money(setup.pay.bonus_cents)];
      setText(at("pay-bonus"), bonus
        ? gettext("+ %(amount)s once others agree with what you submitted", {amount})
        : gettext("+ %(each)s for each example that fools the model, once others agree with it", {each}));
    }
  }

  dress() {
    // The editor handles keys anywhere in the page, also Enter on our buttons.
    for (const place of document.querySelectorAll(".work-bar, .work-strip, .work-side, .work-alone, #span, dialog")) {
      place.addEventListener("keydown", (event) => event.stopPropagation());
    }
    // A press on a button leaves the focus in the text: otherwise a phone's keyboard closes and the editor changes under
    // the finger, and the button is no longer where it was pressed.
    document.querySelector(".work-dock").addEventListener("mousedown", (event) => {
      if (event.target.closest("button")) event.preventDefault();
    });
    keepFieldInView();
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

// Nothing of the task is shown or loaded before its warning is accepted.
const consented = () => new Promise((agreed) => {
  // The next worker in this window has another session, and is asked again.
  const known = `outfox.consent.${location.pathname}.${setup.session}`;
  if (!setup.task.consent || tabMemory.get(known) === "yes") {
    agreed();
    return;
  }
  showScreen("consent");
  at("consent-yes").onclick = () => {
    tabMemory.set(known, "yes");
    showScreen("loading");
    agreed();
  };
  at("consent-no").onclick = () => setText(at("consent-refused"), REFUSED);
});

// The marketplace's page around a frame shows title, reward, clock and preview note already.
document.documentElement.toggleAttribute("data-framed", window.parent !== window);

const scheme = matchMedia("(prefers-color-scheme: dark)");
const paint = () => { document.documentElement.dataset.colorScheme = scheme.matches ? "dark" : "light"; };
scheme.addEventListener("change", paint);
paint();

at("error-again").onclick = () => location.reload();
if (setup.error?.give_back) offerReturn();
if (!setup.error) {
  await consented();
  try {
    await new Page().open();
  } catch (error) {
    if (error instanceof ApiError) setText(at("error-text"), error.message);
    showScreen("error");
    if (!(error instanceof ApiError)) throw error;
  }
}
