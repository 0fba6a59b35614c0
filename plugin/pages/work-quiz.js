// The quiz: all questions at once, what was right, why the rest was not, and another attempt where there is one.

import {Drafts} from "./work-drafts.js";
import {at, clearError, element, once, setText, showError} from "./work-screen.js";
import {gettext, ngettext, pageLanguage} from "./translation.js";

const PAID = gettext("Submit to be paid for it.");
const QUALIFIED = gettext("You get the qualification shortly after you submit.");
const AGAIN = gettext("Read the explanations, then try again, or submit: you are paid either way.");
const DRAFT = "quiz";

export class Quiz {
  constructor(page) {
    this.page = page;
    this.form = at("quiz");
    this.drafts = new Drafts(page.client, page.setup.session, (error) => {
      if (["over", "gone"].includes(error.kind)) page.failed(error);
    }, () => "/quiz/draft");
  }

  async open() {
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", () => this.chosen());
    at("submit").onclick = () => (this.isOpen() ? this.check() : this.submit());
    at("quiz-again").onclick = () => this.again();
    this.pickUp();
    const {items} = this.page.state;
    this.form.replaceChildren(...items.map((one) => this.question(one, items.length)));
    this.mark();
    this.draw();
  }

  // Shows what the server has; what this tab kept before it was reloaded is newer.
  pickUp() {
    const {quiz, items, quiz_is_open: isOpen} = this.page.state;
    this.result = isOpen ? null : quiz;
    const left = quiz?.passed || this.page.setup.preview ? null : this.drafts.left(DRAFT, this.taken());
    if (!left) return;
    this.result = null;
    items.forEach((one, place) => { one.given = left.answers[place] ?? null; });
    this.drafts.keep(DRAFT, left, this.taken());
  }

  // What the answers are for: a draft from before the last result is outdated.
  taken() {
    return this.page.state.quiz;
  }

  leave() {
    this.drafts.leave();
  }

  chosen() {
    this.draw();
    if (!this.page.setup.preview) this.drafts.keep(DRAFT, {answers: this.answers()}, this.taken());
  }

  refreshed() {
    const {quiz, quiz_is_open: isOpen} = this.page.state;
    if (quiz && !isOpen && JSON.stringify(quiz) !== JSON.stringify(this.result) && !this.drafts.waiting.size) {
      this.result = quiz;
      this.mark();
    }
    this.draw();
  }

  // Whether answers can be given now.
  isOpen() {
    return !this.result;
  }

  question({item, question, choices, given}, all) {
    const options = choices.map((choice, place) => {
      const input = element("input", {type: "radio", name: `question-${item}`, value: String(place), checked: given === place});
      input.disabled = this.page.setup.preview;
      return element("label", {className: "choice"}, input, element("span", {textContent: choice, dir: "auto"}));
    });
    return element("fieldset", {className: "work-card"},
      element("legend", {},
        element("span", {className: "work-soft", textContent: gettext("Question %(number)s of %(all)s", {number: item + 1, all}), lang: pageLanguage}),
        element("span", {textContent: question, dir: "auto"})),
      ...options,
      element("p", {className: "explain", hidden: true, dir: "auto"}));
  }

  answers() {
    return this.page.state.items.map(({item}) => {
      const chosen = this.form.querySelector(`input[name="question-${item}"]:checked`);
      return chosen ? Number(chosen.value) : null;
    });
  }

  check() {
    const missing = this.answers().indexOf(null);
    if (missing >= 0) {
      showError(gettext("Question %(number)s is not answered yet. Answer all, then check.", {number: missing + 1}));
      this.form.children[missing].querySelector("input").focus();
      return;
    }
    clearError();
    once(async () => {
      try {
        this.result = await this.page.withRetries(() => this.page.client.post("/quiz", {answers: this.answers()}));
        this.page.state.quiz = this.result;
        this.drafts.drop(DRAFT, "");
        this.mark();
        this.draw();
        at("quiz-result").focus();
      } catch (error) {
        await this.page.failed(error, () => this.check());
      }
    });
  }

  submit() {
    clearError();
    once(async () => {
      try {
        await this.page.finish();
      } catch (error) {
        await this.page.failed(error, () => this.submit());
      }
    });
  }

  again() {
    this.result = null;
    this.mark();
    this.draw();
    this.form.querySelector("input").focus();
  }

  mark() {
    [...this.form.children].forEach((one, place) => {
      const explain = one.querySelector(".explain");
      const why = this.result?.explain[place] ?? null;
      setText(explain, why ?? "");
      explain.hidden = why === null;
      one.classList.toggle("wrong", why !== null);
      for (const input of one.querySelectorAll("input")) input.disabled = this.page.setup.preview || Boolean(this.result);
    });
  }

  draw() {
    const {result} = this;
    const place = at("quiz-result");
    place.hidden = !result;
    setText(at("submit"), this.isOpen() ? gettext("Check my answers") : gettext("Submit"));
    if (this.page.setup.preview) return;
    const again = result && !result.passed && result.attempts_left > 0;
    at("quiz-again").hidden = !again;
    at("quiz-again").classList.toggle("primary", Boolean(again));
    at("submit").classList.toggle("primary", !again);
    const given = this.answers().filter((one) => one !== null).length;
    const answered = gettext("%(given)s of %(all)s answered. You are paid whether you pass or not.",
      {given, all: this.page.state.items.length});
    setText(at("submit-note"), this.isOpen() ? answered : "");
    const left = result && !result.passed ? result.attempts_left : null;
    setText(at("quiz-left"), left === null ? "" : ngettext("%(n)s attempt left", "%(n)s attempts left", left));
    if (!result) return;
    place.dataset.passed = String(result.passed);
    place.dataset.outcome = result.passed ? "fooled" : "not-fooled";
    const rest = again ? AGAIN : PAID;
    place.replaceChildren(
      element("div", {className: "work-verdict-head"}, element("h2", {textContent: result.passed ? gettext("Passed") : gettext("Not passed")})),
      element("div", {className: "work-verdict-text"},
        element("p", {textContent: gettext("%(right)s of %(all)s right.", {right: result.right, all: result.of})}),
        element("p", {textContent: result.passed ? QUALIFIED : rest})),
    );
  }
}
