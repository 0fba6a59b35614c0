// Marking words of a passage without a mouse: they are typed, found in the passage, and put on the desk as if marked.

import {at, say} from "./work-shell.js";

const LABEL = "Answer";

const placesOf = (passage, words) => {
  const found = [];
  const [text, wanted] = [passage.toLocaleLowerCase(), words.toLocaleLowerCase()];
  // Lower case can be longer than upper case; then only the exact words are found.
  const [where, what] = text.length === passage.length ? [text, wanted] : [passage, words];
  for (let place = where.indexOf(what); what && place >= 0; place = where.indexOf(what, place + 1)) found.push(place);
  return found;
};

export class SpanMarker {
  // `mark` puts a result on the desk in place of what was marked before.
  constructor(desk, mark) {
    this.desk = desk;
    this.mark = mark;
    this.control = [...desk.controls.values()].find((one) => one.tag === "Labels");
    if (!this.control) return;
    at("span").hidden = false;
    at("span-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find(at("span-text").value.trim());
    });
    at("span-text").addEventListener("input", () => { at("span-mark").textContent = "Mark it"; this.last = ""; });
  }

  show() {
    if (!this.control) return;
    this.last = "";
    at("span-text").value = "";
    at("span-mark").textContent = "Mark it";
    say(at("span-note"), "");
  }

  find(words) {
    if (!words) {
      say(at("span-note"), "Type some words of the passage first.");
      return;
    }
    const passage = this.desk.task[this.control.toName];
    const places = placesOf(passage, words);
    if (!places.length) {
      say(at("span-note"), "These words do not stand in the passage like that. Copy them exactly.");
      return;
    }
    const turn = words === this.last ? this.turn + 1 : 0;
    this.last = words;
    this.turn = turn;
    const start = places[turn % places.length];
    const end = start + words.length;
    const text = passage.slice(start, end);
    const {name, toName} = this.control;
    const others = this.desk.result().filter((one) => one.from_name !== name);
    const value = {start, end, text, labels: [LABEL]};
    this.mark([...others, {id: `span${start}`, from_name: name, to_name: toName, type: "labels", value}]);
    at("span-mark").textContent = places.length > 1 ? "Mark the next" : "Mark it";
    const which = places.length > 1 ? `, place ${(turn % places.length) + 1} of ${places.length}` : "";
    say(at("span-note"), `Marked${which}: “${text}”`);
  }
}
