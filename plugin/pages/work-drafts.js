// Drafts: what is typed is sent to the server soon after, and again until it arrives. Until then the tab keeps it too,
// if the browser allows: a reloaded page can be faster than the last request of the page before.

import {retryUntilDone} from "./work-api.js";
import {at, setText, tabMemory} from "./work-screen.js";
import {gettext} from "./translation.js";

const SOON_MS = 800;
const SAVED = gettext("Draft saved");
const AWAY = gettext("Not saved yet: we cannot be reached. We try again.");

export class Drafts {
  // `failed` gets errors that a retry cannot resolve, and the mark that was sent; `place` is the path of an item's draft.
  constructor(client, session, failed, place = (item) => `/items/${item}/draft`) {
    this.client = client;
    this.session = session;
    this.failed = failed;
    this.place = place;
    this.waiting = new Map();
    this.sending = false;
  }

  // `body` is the draft as it is sent; `task` is what it was written for, which changes with a skip.
  keep(item, body, task) {
    this.waiting.set(item, body);
    tabMemory.set(this.key(item), JSON.stringify({task, body}));
    this.showState("waiting", "");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.send(), SOON_MS);
  }

  // Returns what was typed before the page was reloaded and the server may not have; null if there is nothing.
  left(item, task) {
    const kept = JSON.parse(tabMemory.get(this.key(item)) ?? "null");
    return kept?.body && JSON.stringify(kept.task) === JSON.stringify(task) ? kept.body : null;
  }

  // Called when the server got the item's text in another call.
  drop(item, text = SAVED) {
    this.waiting.delete(item);
    tabMemory.forget(this.key(item));
    if (!this.waiting.size) this.showState("saved", text);
  }

  // Drops what was typed for a text that the example no longer has.
  forget(item, mark) {
    if (this.waiting.get(item)?.mark === mark) this.waiting.delete(item);
    if (!this.waiting.has(item)) this.drop(item, "");
  }

  // The page closes: sends everything without waiting for a response.
  leave() {
    for (const [item, draft] of this.waiting) {
      this.client.call("PUT", this.place(item), draft, {keepalive: true}).catch(() => {});
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
    let answer;
    this.showState("saving", gettext("Saving…"));
    try {
      answer = await retryUntilDone(
        () => {
          sent = this.waiting.get(item);
          return sent === undefined ? null : this.client.put(this.place(item), sent);
        },
        () => { this.showState("away", AWAY); return this.waiting.has(item); },
      );
    } catch (error) {
      if (this.waiting.get(item) === sent) this.waiting.delete(item);
      if (error.retry) return;
      // What was written for another text is not kept.
      if (error.kind === "changed") this.forget(item, sent.mark);
      else this.showState("away", error.message);
      this.failed(error, sent.mark);
      return;
    }
    if (this.waiting.get(item) !== sent) return;
    if (answer?.stored === false) {
      this.waiting.delete(item);
      this.showState("saved", gettext("Draft kept in this tab"));
    } else this.drop(item);
  }

  key(item) {
    return `outfox.draft.${this.session}.${item}`;
  }

  showState(state, text) {
    at("saved").dataset.draft = state;
    setText(at("saved"), text);
  }
}
