// Drafts: what is typed goes to the server soon after, and while that is away again and again until it is there. Until
// then the tab has it too, where it may: a page that is loaded again can be faster than what the last one sent.

import {untilDone} from "./work-line.js";
import {at, say, untilClosed} from "./work-shell.js";

const SOON_MS = 800;
const AWAY = "Not saved yet: we cannot be reached. We try again.";

export class Drafts {
  // `failed` hears of what cannot be mended by waiting, and of the mark that was sent.
  constructor(line, failed) {
    this.line = line;
    this.failed = failed;
    this.waiting = new Map();
    this.sending = false;
  }

  // `task` is what the text was written for: after a skip it is somebody else's. The server knows it by its mark.
  keep(item, result, task, mark) {
    this.waiting.set(item, {result, mark});
    untilClosed.set(this.key(item), JSON.stringify({task, result}));
    this.tell("waiting", "");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), SOON_MS);
  }

  // What was typed before the page was loaded again and the server may not have heard of; null where there is nothing.
  left(item, task) {
    const kept = JSON.parse(untilClosed.get(this.key(item)) ?? "null");
    return kept && JSON.stringify(kept.task) === JSON.stringify(task) ? kept.result : null;
  }

  // The server has the item's text by another way.
  drop(item, text = "Draft saved") {
    this.waiting.delete(item);
    untilClosed.forget(this.key(item));
    if (!this.waiting.size) this.tell("saved", text);
  }

  // What was typed for a text that the example no longer has.
  forget(item, mark) {
    if (this.waiting.get(item)?.mark === mark) this.waiting.delete(item);
    if (!this.waiting.has(item)) this.drop(item, "");
  }

  // The page goes away: everything is sent at once, and nobody waits for an answer.
  leave() {
    for (const [item, draft] of this.waiting) {
      this.line.call("PUT", this.place(item), draft, {keepalive: true}).catch(() => {});
    }
  }

  async send() {
    clearTimeout(this.timer);
    if (this.sending) return;
    this.sending = true;
    try {
      while (this.waiting.size) await this.sendOne(this.waiting.keys().next().value);
    } finally {
      this.sending = false;
    }
  }

  async sendOne(item) {
    let sent;
    this.tell("saving", "Saving…");
    try {
      await untilDone(
        () => {
          sent = this.waiting.get(item);
          return sent === undefined ? null : this.line.put(this.place(item), sent);
        },
        () => { this.tell("away", AWAY); return this.waiting.has(item); },
      );
    } catch (trouble) {
      if (this.waiting.get(item) === sent) this.waiting.delete(item);
      if (trouble.retry) return;
      // What was written for another text is nothing to be kept.
      if (trouble.kind === "changed") this.forget(item, sent.mark);
      else this.tell("away", trouble.message);
      this.failed(trouble, sent.mark);
      return;
    }
    if (this.waiting.get(item) === sent) this.drop(item);
  }

  key(item) {
    return `outfox.draft.${this.line.token}.${item}`;
  }

  place(item) {
    return `/items/${item}/draft`;
  }

  tell(state, text) {
    at("saved").dataset.draft = state;
    say(at("saved"), text);
  }
}
