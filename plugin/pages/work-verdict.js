// The verdict: asks the model, tells what it said, and that it is about another text once the text was changed.

import {untilDone} from "./work-line.js";
import {at, counted, element, isBusy, once, say} from "./work-shell.js";

const NOTHING = "Nothing yet. Write your text, then ask the model.";
const ASKING = "Asking the model…";
const CHANGED = "You changed your text while we waited, so it was not asked about. Ask again when you are ready.";

const key = (asked) => JSON.stringify(Object.entries(asked).sort());

const outcomeOf = ({fooled}) => ({true: "fooled", false: "not-fooled"})[fooled] ?? "answered";

const percent = (share) => `${Math.round(share * 100)}%`;

export class VerdictPanel {
  constructor(line, desk) {
    this.line = line;
    this.desk = desk;
    this.place = at("verdict");
  }

  // The panel of another item, with what the model said last to it.
  show(item) {
    this.item = item;
    this.known = new Map();
    this.waitingFor = null;
    this.last = null;
    this.note = "";
    for (const one of item.verdicts ?? []) this.keep(one.on, one);
    this.refresh();
  }

  // The same item, as the server has it now: another tab may have asked.
  heard(item) {
    this.item = item;
    for (const one of item.verdicts) if (!this.known.has(key(one.on))) this.keep(one.on, one);
    this.refresh();
  }

  keep(asked, verdict) {
    this.known.set(key(asked), verdict);
    this.last = verdict;
  }

  // What the model said to exactly what is written now.
  current() {
    return this.known.get(key(this.desk.asked())) ?? null;
  }

  refresh() {
    if (this.waitingFor !== null) return;
    const current = this.current();
    const shown = current ?? this.last;
    if (current) this.note = "";
    this.draw(shown ? (current ? outcomeOf(shown) : "stale") : "none", this.note || (shown?.message ?? NOTHING), shown);
  }

  draw(outcome, message, verdict) {
    this.place.dataset.outcome = outcome;
    if (verdict) this.place.dataset.last = outcomeOf(verdict);
    else delete this.place.dataset.last;
    say(at("verdict-title"), outcome === "stale" ? "Before your change" : "What the model says");
    say(at("verdict-message"), message);
    const drawn = verdict ? `${verdict.number} ${key(verdict.on)}` : "";
    if (this.drawn === drawn) return;
    this.drawn = drawn;
    at("verdict-said").replaceChildren(...(verdict?.said ?? []).map((one) => this.said(one)));
  }

  said({title, confidence, version}) {
    const bar = element("progress", {max: 1, value: confidence, ariaHidden: "true"});
    return element("li", {},
      element("b", {textContent: title || "no answer", dir: "auto"}),
      element("span", {className: "sure", textContent: `${percent(confidence)} sure`}),
      bar,
      element("small", {className: "version", textContent: `Model ${version}`}));
  }

  // Asks about what is written now; while nobody answers it asks again by itself, until the text is another one.
  ask(onDone, onTrouble) {
    return once(async () => {
      const item = this.item;
      const result = this.desk.result();
      const asked = this.desk.asked(result);
      this.waitingFor = key(asked);
      this.note = "";
      this.draw("asking", ASKING, this.last);
      const isSame = () => this.waitingFor === key(this.desk.asked());
      try {
        const answer = await untilDone(
          () => this.line.post(`/items/${item.item}/tries`, {result, mark: item.mark}),
          (trouble) => { this.draw("away", trouble.message, this.last); return isSame(); },
        );
        item.tries_used = answer.tries_used;
        this.keep(asked, {...answer.verdict, on: asked});
        if (!item.verdicts.some((one) => one.number === this.last.number)) item.verdicts.push(this.last);
        this.waitingFor = null;
        this.refresh();
        onDone(answer);
      } catch (trouble) {
        const gaveUp = trouble.retry && !isSame();
        this.waitingFor = null;
        if (gaveUp) this.note = CHANGED;
        this.refresh();
        if (!gaveUp) onTrouble(trouble);
      }
    });
  }
}

// Tries, skipping and handing in, as far as the rules let the page know; the server has the last word.
export const drawTries = (item, {tries: most, tries_before_skip: least}, verdict) => {
  const left = Math.max(0, most - item.tries_used);
  const more = Math.max(0, least - item.tries_used);
  say(at("tries"), `${left} of ${counted(most, "try", "tries")} left`);
  at("tries-bar").max = most;
  at("tries-bar").value = left;
  at("ask").disabled = item.done || left === 0;
  at("skip").disabled = !item.may_skip && more > 0 || item.done;
  say(at("skip-note"), item.done || !more ? "" : `after ${counted(more, "more try", "more tries")}`);
  if (item.done) return "This example is handed in.";
  if (!verdict) {
    if (isBusy()) return "";
    return left ? "Ask the model before you hand in." : "Hand in a text that you asked about, or skip.";
  }
  if (verdict.fooled) return "";
  if (!more) return "You may hand this in as it is, or go on trying.";
  const tries = counted(more, "more try", "more tries");
  return `The model was right. Make ${tries} before you hand in a text that does not fool it.`;
};
