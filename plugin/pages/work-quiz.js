// The quiz: all questions at once, what was right, why the rest was not, and another attempt where there is one.

import {at, clearError, counted, element, once, setText, showError} from "./work-screen.js";

const PAID = "Submit to be paid for it.";
const QUALIFIED = "You get the qualification shortly after you submit.";

export class Quiz {
  constructor(page) {
    this.page = page;
    this.form = at("quiz");
  }

  async open() {
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", () => this.draw());
    at("submit").onclick = () => (this.isOpen() ? this.check() : this.submit());
    at("quiz-again").onclick = () => this.again();
    this.result = this.page.state.quiz;
    const {items} = this.page.state;
    this.form.replaceChildren(...items.map((one) => this.question(one, items.length)));
    this.mark();
    this.draw();
  }

  refreshed() {
    if (JSON.stringify(this.page.state.quiz) !== JSON.stringify(this.result) && this.page.state.quiz) {
      this.result = this.page.state.quiz;
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
        element("span", {className: "work-soft", textContent: `Question ${item + 1} of ${all}`}),
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
      showError(`Question ${missing + 1} is not answered yet. Answer all, then check.`);
      this.form.children[missing].querySelector("input").focus();
      return;
    }
    clearError();
    once(async () => {
      try {
        this.result = await this.page.withRetries(() => this.page.client.post("/quiz", {answers: this.answers()}));
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
    setText(at("submit"), this.isOpen() ? "Check my answers" : "Submit");
    if (this.page.setup.preview) return;
    const again = result && !result.passed && result.attempts_left > 0;
    at("quiz-again").hidden = !again;
    at("quiz-again").classList.toggle("primary", Boolean(again));
    at("submit").classList.toggle("primary", !again);
    const given = this.answers().filter((one) => one !== null).length;
    const answered = `${given} of ${this.page.state.items.length} answered. You are paid whether you pass or not.`;
    setText(at("submit-note"), this.isOpen() ? answered : "");
    setText(at("quiz-left"), result && !result.passed ? `${counted(result.attempts_left, "attempt")} left` : "");
    if (!result) return;
    place.dataset.passed = String(result.passed);
    place.dataset.outcome = result.passed ? "fooled" : "not-fooled";
    const rest = again ? "Read the explanations, then try again, or submit: you are paid either way." : PAID;
    place.replaceChildren(
      element("h2", {textContent: result.passed ? "Passed" : "Not passed"}),
      element("p", {textContent: `${result.right} of ${result.of} right. ${result.passed ? QUALIFIED : rest}`}),
    );
  }
}
