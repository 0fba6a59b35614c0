// The instructions: they open once, for a worker who has not read them, and then with their button. The server knows
// what was read, in any browser.

import {at} from "./work-screen.js";

export class Instructions {
  constructor(client, setup) {
    this.client = client;
    this.version = setup.task.instructions_version;
    this.isRead = setup.preview || setup.task.instructions_read;
    this.dialog = at("instructions");
    // On a phone a wide table scrolls; keyboard users must be able to focus it.
    for (const table of this.dialog.querySelectorAll("table")) table.tabIndex = 0;
    at("instructions-open").hidden = !setup.task.instructions_html;
    at("instructions-open").onclick = () => this.open();
    at("instructions-close").onclick = () => this.dialog.close();
    // Also when Escape closes it.
    this.dialog.addEventListener("close", () => this.remember());
  }

  openOnce() {
    if (!this.isRead && !at("instructions-open").hidden) this.open();
  }

  open() {
    this.dialog.showModal();
    const text = this.dialog.querySelector(".work-prose");
    text.scrollTop = 0;
    text.focus({preventScroll: true});
  }

  async remember() {
    if (this.isRead) return;
    this.isRead = true;
    try {
      await this.client.post("/instructions", {version: this.version});
    } catch {
      // They open once more with the next page.
    }
  }
}
