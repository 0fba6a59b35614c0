// HITs with items to write or to validate: one is in the editor, the others are a click away.

import {EarlierAttempts, VerdictPanel, drawAttempts} from "./work-attempts.js";
import {Drafts} from "./work-drafts.js";
import {EditorPane, SpanMarker} from "./work-editor.js";
import {announce, at, clearError, element, isBusy, once, openDialog, setText, showError} from "./work-screen.js";
import {gettext, ngettext} from "./translation.js";

const CLOSED = gettext("This round was closed. Submit the HIT as it is; you are paid for it.");
const SUBMIT = gettext("Submit");
const AGAIN = gettext("You asked that before: no attempt was used.");
const OTHER_TEXT = gettext("Here is another text.");
const DRAFT_SAVED = gettext("Draft saved");
const ANYWAY = gettext("Submit anyway");

export class Items {
  // `page` has the API client, the setup, and what happens to the HIT as a whole.
  constructor(page) {
    this.page = page;
    this.client = page.client;
    this.writes = page.setup.kind === "create";
    this.editor = new EditorPane(at("editor"), page.setup);
    // An error shows when the editor is opened.
    this.editor.load().catch(() => {});
    this.at = 0;
    this.drafts = new Drafts(page.client, page.setup.session, (error, mark) => {
      // If the text was skipped or is being asked about here, that call reports the change.
      const isNews = error.kind === "changed" && mark === this.mark && !isBusy();
      if (isNews || ["over", "gone"].includes(error.kind)) page.failed(error);
    });
    if (this.writes) {
      this.verdict = new VerdictPanel(page.client, this.editor, () => this.page.state);
      this.earlier = new EarlierAttempts(this.editor, (result) => this.put(result));
    }
    this.span = new SpanMarker(this.editor, (result) => this.put(result));
  }

  get item() {
    return this.page.state.items[this.at];
  }

  async open() {
    const items = this.page.state.items;
    const first = items.findIndex((one) => !one.done);
    this.at = Math.max(0, first);
    this.pickUp();
    await this.editor.open(this.item.task);
    this.editor.onChange = () => this.changed();
    this.editor.onAsk = () => this.ask();
    if (this.writes) {
      at("ask").onclick = () => this.ask();
      at("skip").onclick = () => openDialog("skip-dialog");
      at("skip-yes").onclick = () => this.skip();
    }
    at("submit").onclick = () => this.submit();
    this.show(this.at);
  }

  // Shows another item; the draft of the one before is saved first.
  show(number) {
    if (this.drafts.waiting.size) this.drafts.send();
    this.at = number;
    const item = this.item;
    this.editor.show(item.task, item.draft?.result ?? [], item.done && this.writes);
    this.kept = JSON.stringify(this.editor.result());
    // An unchanged judgement is not sent again.
    this.judged = item.done ? this.kept : "";
    this.shownTask = JSON.stringify(item.task);
    this.mark = item.mark;
    this.verdict?.show(item);
    this.span.show();
    clearError();
    this.draw();
  }

  leave() {
    this.drafts.leave();
  }

  put(result) {
    this.editor.show(this.item.task, result);
    this.changed();
  }

  // Updates from the server's state; the editor keeps its content unless its item changed.
  refreshed() {
    this.at = Math.min(this.at, this.page.state.items.length - 1);
    const isOther = this.item.mark !== this.mark || JSON.stringify(this.item.task) !== this.shownTask;
    if (isOther || this.editor.place.inert !== (this.item.done && this.writes)) {
      this.show(this.at);
    } else {
      this.verdict?.update(this.item);
      this.draw();
    }
  }

  draw() {
    const {items, missing} = this.page.state;
    const others = items.filter((one, place) => !one.done && place !== this.at).length;
    this.drawPlaces(items);
    setText(at("submit"), others && missing !== null ? this.wayOn() : SUBMIT);
    this.drawGoal();
    if (this.page.setup.preview) return;
    const note = this.writes ? this.drawWriting(missing) : this.drawChecking(items);
    setText(at("submit-note"), missing === null && !this.item.done ? CLOSED : note);
  }

  wayOn() {
    if (!this.writes) return gettext("Save and go on");
    return this.item.done ? gettext("Go on") : gettext("Submit and go on");
  }

  // The requested label, where the editor's own heading has no room.
  drawGoal() {
    const goal = this.writes ? this.editor.goal(this.item.task) : "";
    setText(at("goal"), goal);
    at("goal").hidden = !goal;
    document.body.toggleAttribute("data-goal", Boolean(goal));
  }

  drawWriting(missing) {
    const {item} = this;
    const verdict = this.verdict.current();
    const note = drawAttempts(item, this.page.state, verdict);
    this.earlier.draw(item);
    const isTriedEnough = item.tries_used >= this.page.state.tries_before_skip;
    const ready = item.done || missing === null || (verdict && (verdict.fooled || isTriedEnough));
    at("submit").disabled = !ready;
    const isNext = ready && (item.done || verdict?.fooled || at("ask").disabled);
    at("submit").classList.toggle("primary", Boolean(isNext));
    at("ask").classList.toggle("primary", !isNext);
    return note;
  }

  drawChecking(items) {
    at("submit").classList.add("primary");
    const done = items.filter((one) => one.done).length;
    return items.length > 1 ? gettext("%(done)s of %(all)s done", {done, all: items.length}) : "";
  }

  drawPlaces(items) {
    const nav = at("items");
    setText(at("place"), items.length > 1 ? this.placeName(this.at) : "");
    nav.hidden = items.length < 2;
    if (nav.childElementCount !== items.length) {
      nav.replaceChildren(...items.map((_, place) => element("button", {type: "button", onclick: () => this.go(place)})));
    }
    items.forEach((one, place) => {
      const button = nav.children[place];
      const isHere = place === this.at;
      button.toggleAttribute("data-done", one.done);
      button.ariaCurrent = isHere ? "step" : null;
      button.ariaLabel = one.done ? gettext("%(place)s, done", {place: this.placeName(place)}) : this.placeName(place);
      setText(button, one.done ? `${place + 1} ✓` : `${place + 1}`);
    });
  }

  placeName(place) {
    const params = {number: place + 1, all: this.page.state.items.length};
    return this.writes ? gettext("Example %(number)s of %(all)s", params) : gettext("Text %(number)s of %(all)s", params);
  }

  go(place) {
    if (place === this.at || isBusy()) return;
    this.show(place);
    announce(this.placeName(place));
  }

  changed() {
    this.verdict?.refresh();
    this.draw();
    if (this.page.setup.preview || (this.item.done && this.writes)) return;
    const result = this.editor.result();
    const written = JSON.stringify(result);
    if (written === this.kept) return;
    if (!isBusy()) clearError();
    this.kept = written;
    this.item.draft = {result};
    this.drafts.keep(this.item.item, {result, mark: this.mark}, this.item.task);
  }

  // Restores what this tab kept before it was reloaded, and sends it to the server.
  pickUp() {
    for (const item of this.page.state.items) {
      const left = item.done || this.page.setup.preview ? null : this.drafts.left(item.item, item.task);
      if (!left) continue;
      item.draft = {result: left.result};
      this.drafts.keep(item.item, {...left, mark: item.mark}, item.task);
    }
  }

  // Called when the server has stored the editor's content.
  stored(text) {
    this.kept = JSON.stringify(this.editor.result());
    this.drafts.drop(this.item.item, text);
  }

  ask() {
    if (this.page.setup.preview || at("ask").disabled || isBusy()) return;
    clearError();
    this.verdict.ask(
      ({again}) => {
        this.item.may_skip = this.item.tries_used >= this.page.state.tries_before_skip;
        this.stored(DRAFT_SAVED);
        if (again) announce(AGAIN);
        this.draw();
      },
      (error) => { this.page.failed(error, () => this.ask()); },
    ).then(() => this.draw());
    this.draw();
  }

  skip() {
    at("skip-dialog").close();
    return once(async () => {
      try {
        const body = {reason: at("skip-reason").value, mark: this.mark, active_ms: this.page.activeTime.count()};
        this.page.state.items[this.at] = await this.page.withRetries(() => this.client.post(`/items/${this.item.item}/skip`, body));
        this.drafts.drop(this.item.item, "");
        this.show(this.at);
        announce(OTHER_TEXT);
        this.editor.focus();
      } catch (error) {
        await this.page.failed(error);
      }
    });
  }

  // Submits the item, then shows the next one that is not done, or finishes the HIT.
  submit() {
    if (this.page.setup.preview || at("submit").disabled) return;
    clearError();
    return once(async () => {
      try {
        const {item} = this;
        // A closed round accepts the HIT as it is.
        if (this.page.state.missing !== null || item.done) await this.submitItem(item);
        await this.page.reload();
        const next = this.page.state.items.findIndex((one) => !one.done);
        if (next < 0 || this.page.state.missing === null) {
          await this.page.finish();
        } else {
          this.show(next);
          const left = this.page.state.items.filter((one) => !one.done).length;
          announce(ngettext("Stored. %(n)s is left.", "Stored. %(n)s are left.", left));
          scrollTo({top: 0});
          this.editor.focus();
        }
      } catch (error) {
        if (this.warned(error)) return;
        await this.page.failed(error, () => this.submit());
        this.editor.focusOn(error.message);
      }
    });
  }

  // Shows that the text earns no bonus, and returns true if that is the error.
  warned(error) {
    const verdict = error.code === "earns_no_bonus" ? this.verdict?.current() : null;
    if (!verdict) return false;
    verdict.warning = error.message;
    this.verdict.refresh();
    showError(error.message, () => this.submit(), ANYWAY);
    return true;
  }

  async submitItem(item) {
    const result = this.editor.result();
    const written = JSON.stringify(result);
    if (item.done && (this.writes || written === this.judged)) return;
    this.judged = written;
    const call = this.writes ? "hand-in" : "judgement";
    const body = {result, mark: this.mark, active_ms: this.page.activeTime.count()};
    // A worker who has read that the text earns no bonus may submit it.
    if (this.writes) body.warn = !this.verdict.current()?.warning;
    const stored = await this.page.withRetries(() => this.client.post(`/items/${item.item}/${call}`, body));
    this.stored("");
    Object.assign(item, stored, {draft: {result}});
  }
}
