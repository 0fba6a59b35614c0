// Earlier tries: what was asked about and what became of it, each a click away from being on the desk again.

import {at, counted, element, say} from "./work-shell.js";

const OUTCOMES = {true: "Fooled", false: "Not fooled"};

// Places are counted in characters on the server, and in halves of some of them here.
const halves = (text, characters) => [...text].slice(0, characters).join("").length;

export class EarlierTries {
  // `put` lays a result on the desk.
  constructor(desk, put) {
    this.desk = desk;
    this.put = put;
    this.drawn = "";
  }

  draw({verdicts, task, done}) {
    at("earlier").hidden = verdicts.length === 0;
    say(at("earlier-count"), `Your ${counted(verdicts.length, "try", "tries")}`);
    const drawn = JSON.stringify([verdicts.map(({number}) => number), task, done]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    at("earlier-list").replaceChildren(...[...verdicts].reverse().map((one) => this.line(one, task, done)));
  }

  line(verdict, task, done) {
    const outcome = OUTCOMES[verdict.fooled] ?? "Answered";
    const texts = Object.values(verdict.on);
    const button = element("button", {type: "button", className: "plain", textContent: "Use again", disabled: done});
    button.ariaLabel = `Use again: try ${verdict.number}`;
    button.onclick = () => { this.put(this.result(verdict, task)); this.desk.focus(); };
    return element("li", {},
      element("span", {className: "work-soft", textContent: `${outcome}: ${verdict.said[0]?.title ?? ""}`, dir: "auto"}),
      element("span", {textContent: texts.join(" · "), dir: "auto"}),
      button);
  }

  // What is on the desk, with the texts and the marked words of that try.
  result({on, answer}, task) {
    const found = this.desk.result().filter(({from_name: name}) => !(name in on));
    for (const [name, text] of Object.entries(on)) {
      const {tag, toName} = this.desk.controls.get(name);
      const made = {id: `again-${name}`, from_name: name, to_name: toName, type: tag.toLowerCase()};
      if (tag === "TextArea") {
        found.push({...made, value: {text: [text]}});
      } else if (tag === "Choices") {
        found.push({...made, value: {choices: [text]}});
      } else if (answer) {
        const [start, end] = [answer.start, answer.end].map((place) => halves(task[toName], place));
        found.push({...made, value: {start, end, text, labels: ["Answer"]}});
      }
    }
    return found;
  }
}
