// HITs with items, to write or to check: one is on the desk, the others are a click away.

import {Desk} from "./work-desk.js";
import {Drafts} from "./work-drafts.js";
import {EarlierTries} from "./work-earlier.js";
import {at, clearTrouble, counted, element, isBusy, once, openDialog, say, tell} from "./work-shell.js";
import {SpanMarker} from "./work-span.js";
import {VerdictPanel, drawTries} from "./work-verdict.js";

const CLOSED = "This round was closed. Submit the HIT as it is; you are paid for it.";

export class Items {
  // `page` has the line, the setup, and what happens to the HIT as a whole.
  constructor(page) {
    this.page = page;
    this.line = page.line;
    this.writes = page.setup.kind === "create";
    this.desk = new Desk(at("editor"), page.setup);
    // What goes wrong is told when the desk is opened.
    this.desk.load().catch(() => {});
    this.at = 0;
    this.drafts = new Drafts(page.line, (trouble, mark) => {
      // Where the text was skipped here, or is asked about now, this page hears of it by that call.
      const isNews = trouble.kind === "changed" && mark === this.mark && !isBusy();
      if (isNews || ["over", "gone"].includes(trouble.kind)) page.failed(trouble);
    });
    if (this.writes) {
      this.verdict = new VerdictPanel(page.line, this.desk);
      this.earlier = new EarlierTries(this.desk, (result) => this.put(result));
    }
    this.span = new SpanMarker(this.desk, (result) => this.put(result));
  }

  get item() {
    return this.page.state.items[this.at];
  }

  async open() {
    const items = this.page.state.items;
    const first = items.findIndex((one) => !one.done);
    this.at = Math.max(0, first);
    this.pickUp();
    await this.desk.open(this.item.task);
    this.desk.onChange = () => this.changed();
    this.desk.onAsk = () => this.ask();
    if (this.writes) {
      at("ask").onclick = () => this.ask();
      at("skip").onclick = () => openDialog("skip-dialog");
      at("skip-yes").onclick = () => this.skip();
    }
    at("submit").onclick = () => this.submit();
    this.show(this.at);
  }

  // Another item comes on the desk; what is typed on the one before is saved first.
  show(number) {
    if (this.drafts.waiting.size) this.drafts.send();
    this.at = number;
    const item = this.item;
    this.desk.show(item.task, item.draft?.result ?? [], item.done && this.writes);
    this.kept = JSON.stringify(this.desk.result());
    // A judgement that stands as it was given need not be given again.
    this.judged = item.done ? this.kept : "";
    this.shownTask = JSON.stringify(item.task);
    this.mark = item.mark;
    this.verdict?.show(item);
    this.span.show();
    clearTrouble();
    this.draw();
  }

  leave() {
    this.drafts.leave();
  }

  put(result) {
    this.desk.show(this.item.task, result);
    this.changed();
  }

  // What the server says now; the desk stays as it is unless its item is another one.
  refreshed() {
    this.at = Math.min(this.at, this.page.state.items.length - 1);
    const isOther = this.item.mark !== this.mark || JSON.stringify(this.item.task) !== this.shownTask;
    if (isOther || this.desk.place.inert !== (this.item.done && this.writes)) {
      this.show(this.at);
    } else {
      this.verdict?.heard(this.item);
      this.draw();
    }
  }

  draw() {
    const {items, missing} = this.page.state;
    const others = items.filter((one, place) => !one.done && place !== this.at).length;
    this.drawPlaces(items);
    say(at("submit"), others && missing !== null ? this.wayOn() : "Submit");
    if (this.page.setup.preview) return;
    const note = this.writes ? this.drawWriting(missing) : this.drawChecking(items);
    say(at("submit-note"), missing === null && !this.item.done ? CLOSED : note);
  }

  wayOn() {
    if (!this.writes) return "Save and go on";
    return this.item.done ? "Go on" : "Hand in and go on";
  }

  drawWriting(missing) {
    const {item} = this;
    const verdict = this.verdict.current();
    const note = drawTries(item, this.page.state, verdict);
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
    return items.length > 1 ? `${items.filter((one) => one.done).length} of ${items.length} done` : "";
  }

  drawPlaces(items) {
    const nav = at("items");
    const {word} = nav.dataset;
    say(at("place"), items.length > 1 ? `${word} ${this.at + 1} of ${items.length}` : "");
    nav.hidden = items.length < 2;
    if (nav.childElementCount !== items.length) {
      nav.replaceChildren(...items.map((_, place) => element("button", {type: "button", onclick: () => this.go(place)})));
    }
    items.forEach((one, place) => {
      const button = nav.children[place];
      const isHere = place === this.at;
      button.toggleAttribute("data-done", one.done);
      button.ariaCurrent = isHere ? "step" : null;
      button.ariaLabel = `${word} ${place + 1} of ${items.length}${one.done ? ", done" : ""}`;
      say(button, one.done ? `${place + 1} ✓` : `${place + 1}`);
    });
  }

  go(place) {
    if (place === this.at || isBusy()) return;
    this.show(place);
    tell(`${at("items").dataset.word} ${place + 1} of ${this.page.state.items.length}`);
  }

  changed() {
    this.verdict?.refresh();
    this.draw();
    if (this.page.setup.preview || (this.item.done && this.writes)) return;
    const result = this.desk.result();
    const written = JSON.stringify(result);
    if (written === this.kept) return;
    if (!isBusy()) clearTrouble();
    this.kept = written;
    this.item.draft = {result};
    this.drafts.keep(this.item.item, result, this.item.task, this.mark);
  }

  // What this tab still has from before it was loaded again goes on the desk, and to the server.
  pickUp() {
    for (const item of this.page.state.items) {
      const result = item.done || this.page.setup.preview ? null : this.drafts.left(item.item, item.task);
      if (!result) continue;
      item.draft = {result};
      this.drafts.keep(item.item, result, item.task, item.mark);
    }
  }

  // The server has what is on the desk.
  stored(text) {
    this.kept = JSON.stringify(this.desk.result());
    this.drafts.drop(this.item.item, text);
  }

  ask() {
    if (this.page.setup.preview || at("ask").disabled || isBusy()) return;
    clearTrouble();
    this.verdict.ask(
      ({again}) => {
        this.item.may_skip = this.item.tries_used >= this.page.state.tries_before_skip;
        this.stored("Draft saved");
        if (again) tell("You asked that before: no try was used.");
        this.draw();
      },
      (trouble) => { this.page.failed(trouble, () => this.ask()); },
    ).then(() => this.draw());
    this.draw();
  }

  skip() {
    at("skip-dialog").close();
    return once(async () => {
      try {
        const told = {reason: at("skip-reason").value, mark: this.mark, active_ms: this.page.beats.count()};
        this.page.state.items[this.at] = await this.page.insist(() => this.line.post(`/items/${this.item.item}/skip`, told));
        this.drafts.drop(this.item.item, "");
        this.show(this.at);
        tell("Here is another text.");
        this.desk.focus();
      } catch (trouble) {
        await this.page.failed(trouble);
      }
    });
  }

  // Hands in what is on the desk, then goes to the next one that is not done, or ends the HIT.
  submit() {
    if (this.page.setup.preview || at("submit").disabled) return;
    clearTrouble();
    return once(async () => {
      try {
        const {item} = this;
        // A round that was closed takes the HIT as it is.
        if (this.page.state.missing !== null || item.done) await this.handIn(item);
        await this.page.reload();
        const next = this.page.state.items.findIndex((one) => !one.done);
        if (next < 0 || this.page.state.missing === null) {
          await this.page.finish();
        } else {
          this.show(next);
          tell(`Stored. ${counted(this.page.state.items.filter((one) => !one.done).length, "is", "are")} left.`);
          scrollTo({top: 0});
          this.desk.focus();
        }
      } catch (trouble) {
        await this.page.failed(trouble, () => this.submit());
        this.desk.focusOn(trouble.message);
      }
    });
  }

  async handIn(item) {
    const result = this.desk.result();
    const written = JSON.stringify(result);
    if (item.done && (this.writes || written === this.judged)) return;
    this.judged = written;
    const call = this.writes ? "hand-in" : "judgement";
    const body = {result, mark: this.mark, active_ms: this.page.beats.count()};
    const stored = await this.page.insist(() => this.line.post(`/items/${item.item}/${call}`, body));
    this.stored("");
    Object.assign(item, stored, {draft: {result}});
  }
}
