// Attempts: the panel with the model's verdict on the present text, and the list of earlier attempts.

import {retryUntilDone} from "./work-api.js";
import {at, element, isBusy, once, setText} from "./work-screen.js";
import {gettext, ngettext, pageLanguage, percent} from "./translation.js";

const NOTHING = gettext("Nothing yet. Write your text, then ask the model.");
const ASKING = gettext("Asking the model…");
const CHANGED = gettext("You changed your text while we waited, so it was not asked about. Ask again when you are ready.");
const SAYS = gettext("What the model says");
const TITLES = {
  fooled: gettext("Fooled"), "not-fooled": gettext("Not fooled"), answered: gettext("Answered"), stale: gettext("Before your change"),
};

const key = (asked) => JSON.stringify(Object.entries(asked).sort());

const outcomeOf = ({fooled}) => ({true: "fooled", false: "not-fooled"})[fooled] ?? "answered";

export class VerdictPanel {
  // `state` returns the page's state, which has the number of attempts.
  constructor(client, editor, state) {
    this.client = client;
    this.editor = editor;
    this.state = state;
    this.place = at("verdict");
  }

  // Shows another item, with the model's last verdict on it.
  show(item) {
    this.item = item;
    this.known = new Map();
    this.waitingFor = null;
    this.last = null;
    this.note = "";
    for (const one of item.verdicts ?? []) this.keep(one.on, one);
    this.refresh();
  }

  // Updates the same item from the server: another tab may have asked, and texts that were new may be known now.
  update(item) {
    this.item = item;
    for (const one of item.verdicts) {
      const known = this.known.get(key(one.on));
      if (known) known.warning = one.warning;
      else this.keep(one.on, one);
    }
    this.refresh();
  }

  keep(asked, verdict) {
    this.known.set(key(asked), verdict);
    this.last = verdict;
  }

  // Returns the verdict on exactly what is written now.
  current() {
    return this.known.get(key(this.editor.asked())) ?? null;
  }

  refresh() {
    if (this.waitingFor !== null) return;
    const current = this.current();
    const shown = current ?? this.last;
    if (current) this.note = "";
    this.draw(shown ? (current ? outcomeOf(shown) : "stale") : "none", this.note || (shown ? null : NOTHING), shown);
  }

  // Without a note of ours, the message is the verdict's.
  draw(outcome, note, verdict) {
    this.place.dataset.outcome = outcome;
    if (verdict) this.place.dataset.last = outcomeOf(verdict);
    else delete this.place.dataset.last;
    setText(at("verdict-title"), TITLES[outcome] ?? SAYS);
    const number = TITLES[outcome] ? verdict.number : null;
    setText(at("verdict-attempt"), number ? gettext("attempt %(number)s of %(all)s", {number, all: this.state().tries}) : "");
    // The pack's messages are in its language.
    at("verdict-message").lang = note === null ? this.editor.place.lang : pageLanguage;
    setText(at("verdict-message"), note ?? verdict.message);
    const warning = outcome === "stale" ? "" : verdict?.warning ?? "";
    at("verdict-warning").hidden = !warning;
    setText(at("verdict-warning"), warning);
    const drawn = verdict ? `${verdict.number} ${key(verdict.on)}` : "";
    if (this.drawn === drawn) return;
    this.drawn = drawn;
    at("verdict-said").replaceChildren(...(verdict?.said ?? []).map((one) => this.output(one)));
  }

  output({title, confidence, version}) {
    const bar = element("progress", {max: 1, value: confidence, ariaHidden: "true"});
    return element("li", {},
      element("b", {textContent: title || gettext("no answer"), lang: title ? this.editor.place.lang : pageLanguage, dir: "auto"}),
      element("span", {className: "sure", textContent: gettext("%(share)s sure", {share: percent(confidence)})}),
      bar,
      element("small", {className: "version", textContent: gettext("Model %(version)s", {version})}));
  }

  // Asks about what is written now; retries while the model is unavailable and the text stays the same.
  ask(onDone, onTrouble) {
    return once(async () => {
      const item = this.item;
      const result = this.editor.result();
      const asked = this.editor.asked(result);
      this.waitingFor = key(asked);
      this.note = "";
      this.draw("asking", ASKING, this.last);
      const isSame = () => this.waitingFor === key(this.editor.asked());
      try {
        const answer = await retryUntilDone(
          () => this.client.post(`/items/${item.item}/tries`, {result, mark: item.mark}),
          (error) => { this.draw("away", error.message, this.last); return isSame(); },
        );
        item.tries_used = answer.tries_used;
        this.keep(asked, {...answer.verdict, on: asked});
        if (!item.verdicts.some((one) => one.number === this.last.number)) item.verdicts.push(this.last);
        this.waitingFor = null;
        this.refresh();
        onDone(answer);
      } catch (error) {
        const gaveUp = error.retry && !isSame();
        this.waitingFor = null;
        if (gaveUp) this.note = CHANGED;
        this.refresh();
        if (!gaveUp) onTrouble(error);
      }
    });
  }
}

// Shows attempts, skipping and submitting as far as the page knows the rules; the server decides.
export const drawAttempts = (item, {tries: most, tries_before_skip: least}, verdict) => {
  const left = Math.max(0, most - item.tries_used);
  const more = Math.max(0, least - item.tries_used);
  setText(at("tries"), ngettext("%(left)s of %(n)s attempt left", "%(left)s of %(n)s attempts left", most, {left}));
  at("tries-bar").max = most;
  at("tries-bar").value = left;
  at("ask").disabled = item.done || left === 0;
  at("skip").disabled = !item.may_skip && more > 0 || item.done;
  setText(at("skip-note"), item.done || !more ? "" : ngettext("after %(n)s more attempt", "after %(n)s more attempts", more));
  if (item.done) return gettext("This example is submitted.");
  if (!verdict) {
    if (isBusy()) return "";
    return left ? gettext("Ask the model before you submit.") : gettext("Submit a text that you asked about, or skip.");
  }
  if (verdict.fooled) return "";
  if (!more) return gettext("You may submit this as it is, or make another attempt.");
  return ngettext(
    "The model was right. Make %(n)s more attempt before you submit a text that does not fool it.",
    "The model was right. Make %(n)s more attempts before you submit a text that does not fool it.", more);
};

// The server counts code points, JavaScript counts UTF-16 units.
const utf16Length = (text, characters) => [...text].slice(0, characters).join("").length;

export class EarlierAttempts {
  // `put` shows a result in the editor.
  constructor(editor, put) {
    this.editor = editor;
    this.put = put;
    this.drawn = "";
  }

  draw({verdicts, task, done}) {
    at("earlier").hidden = verdicts.length === 0;
    setText(at("earlier-count"), ngettext("Your %(n)s attempt", "Your %(n)s attempts", verdicts.length));
    const drawn = JSON.stringify([verdicts.map(({number}) => number), task, done]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    at("earlier-list").replaceChildren(...[...verdicts].reverse().map((one) => this.row(one, task, done)));
  }

  row(verdict, task, done) {
    const outcome = TITLES[outcomeOf(verdict)];
    const texts = Object.values(verdict.on);
    const button = element("button", {type: "button", className: "plain", textContent: gettext("Use again"), disabled: done});
    button.ariaLabel = gettext("Use again: attempt %(number)s", {number: verdict.number});
    button.onclick = () => { this.put(this.result(verdict, task)); this.editor.focus(); };
    return element("li", {},
      element("span", {className: "work-soft", textContent: gettext("%(outcome)s: %(answer)s", {outcome, answer: verdict.said[0]?.title ?? ""}), dir: "auto"}),
      element("span", {textContent: texts.join(" · "), lang: this.editor.place.lang, dir: "auto"}),
      button);
  }

  // Returns the editor's content with the texts and the marked words of that attempt.
  result({on, answer}, task) {
    const found = this.editor.result().filter(({from_name: name}) => !(name in on));
    for (const [name, text] of Object.entries(on)) {
      const {tag, toName} = this.editor.controls.get(name);
      const made = {id: `again-${name}`, from_name: name, to_name: toName, type: tag.toLowerCase()};
      if (tag === "TextArea") {
        found.push({...made, value: {text: [text]}});
      } else if (tag === "Choices") {
        found.push({...made, value: {choices: [text]}});
      } else if (answer) {
        const [start, end] = [answer.start, answer.end].map((place) => utf16Length(task[toName], place));
        found.push({...made, value: {start, end, text, labels: ["Answer"]}});
      }
    }
    return found;
  }
}
