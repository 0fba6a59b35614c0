// Label Studio's editor with one item in it, and what it contains at any moment.

import {at, element, setText} from "./work-screen.js";
import {gettext} from "./translation.js";

const INTERFACES = ["basic", "controls"];
const ASKS = "smartOnly";
const TYPED = "typed";
const TIMEOUT_MS = 60_000;

const loadScript = (address) => new Promise((loaded, failed) => {
  const script = Object.assign(document.createElement("script"), {src: address, async: false});
  script.onload = loaded;
  script.onerror = () => failed(new Error(`${address} cannot be loaded`));
  document.head.append(script);
});

const loadSheet = (address) => new Promise((loaded, failed) => {
  const sheet = Object.assign(document.createElement("link"), {rel: "stylesheet", href: address});
  sheet.onload = loaded;
  sheet.onerror = () => failed(new Error(`${address} cannot be loaded`));
  // Before our own sheet, which overrides it.
  document.head.prepend(sheet);
});

// The controls of the template: tag, target, heading, and whether the model reads them.
const controlsOf = (config) => {
  const found = new Map();
  let heading = "";
  for (const one of new DOMParser().parseFromString(config, "text/xml").querySelectorAll("*")) {
    if (one.tagName === "Header") heading = one.getAttribute("value") ?? one.textContent;
    const [name, toName] = [one.getAttribute("name"), one.getAttribute("toName")];
    if (name && toName) {
      found.set(name, {name, toName, tag: one.tagName, heading, asks: one.getAttribute(ASKS) === "true" || name === "label"});
    }
  }
  return found;
};

// The heading that names the requested label.
const goalOf = (config) => [...new DOMParser().parseFromString(config, "text/xml").querySelectorAll("Header")]
  .map((one) => one.getAttribute("value") ?? one.textContent)
  .find((text) => text.includes("$target"));

const filledIn = (text, task) => text.replace(/\$(\w+)/g, (_, key) => task?.[key] ?? "");

export class EditorPane {
  constructor(place, setup) {
    this.place = place;
    this.setup = setup;
    this.controls = controlsOf(setup.config);
    this.goalText = goalOf(setup.config) ?? "$target_title";
    place.append(element("p", {className: "work-busy", textContent: gettext("Loading …")}));
    this.onChange = () => {};
    this.onAsk = () => {};
  }

  // Loads the editor's class once; call it early if the editor will be needed.
  load() {
    this.loading ??= this.loadNow();
    return this.loading;
  }

  async loadNow() {
    const files = `/editor/${this.setup.editor.version}`;
    const own = new URL("./editor.js", import.meta.url);
    await Promise.all([
      loadSheet(`${files}/main.css`),
      ...[`${files}/runtime.js`, own, `${files}/vendor.js`, `${files}/main.js`].map(loadScript),
    ]);
    return window.loadEditor(this.setup.editor);
  }

  // Starts the editor; after that, items can be shown.
  async open(task) {
    const LabelStudio = await this.load();
    const root = document.createElement("div");
    this.place.replaceChildren(root);
    const editor = await new Promise((loaded, failed) => {
      setTimeout(() => failed(new Error("the editor does not start")), TIMEOUT_MS);
      const made = new LabelStudio(root, {
        config: this.setup.config,
        task: {id: 1, data: task},
        interfaces: INTERFACES,
        user: {id: 1, pk: 1, firstName: "", lastName: ""},
        onLabelStudioLoad: (store) => { this.store = store; loaded(made); },
      });
    });
    this.listen(editor);
    this.place.removeAttribute("aria-busy");
  }

  // Shows an item with its draft.
  show(task, result, readOnly = false) {
    this.showing = true;
    const kept = result.filter((one) => !one.meta?.[TYPED]);
    this.store.resetState();
    this.store.assignTask({id: 1, data: task});
    this.store.initializeStore({annotations: kept.length ? [{id: 1, result: kept}] : [], predictions: []});
    const annotations = this.store.annotationStore;
    const one = annotations.annotations[0] ?? annotations.addAnnotation({userGenerate: true});
    annotations.selectAnnotation(one.id);
    for (const {from_name: name, value} of result.filter((one) => one.meta?.[TYPED])) {
      annotations.selected.names.get(name)?.setValue(value.text[0]);
    }
    this.place.inert = readOnly;
    this.task = task;
    this.dress();
    this.showing = false;
  }

  // Returns the sentence that names the requested label, empty if the task requests none.
  goal(task) {
    return task.target_title ? filledIn(this.goalText, task) : "";
  }

  // Returns the editor's content, including text that is typed but not added yet.
  result() {
    const taken = this.store.annotationStore.selected.serializeAnnotation();
    const found = taken.filter((one) => one.from_name !== "feedback");
    for (const [name, fields] of this.textFields()) {
      const {toName} = this.controls.get(name);
      const texts = fields.map((field) => field.value).filter((text) => text.trim());
      const before = found.filter((one) => one.from_name === name);
      for (const one of before) found.splice(found.indexOf(one), 1);
      const unfinished = fields.some((field) => field.name === name);
      if (!texts.length) continue;
      const made = {...before[0], from_name: name, to_name: toName, type: "textarea", value: {text: texts}};
      found.push(unfinished ? {...made, meta: {[TYPED]: true}} : made);
    }
    return found;
  }

  // Returns what the model would be asked about: texts, choices and marked words by control.
  asked(result = this.result()) {
    const found = {};
    for (const {from_name: name, value} of result) {
      const control = this.controls.get(name);
      // The editor also adds the label to results without a position in a text.
      if (!control?.asks || (control.tag === "Labels" && value.start === undefined)) continue;
      const said = value.choices ?? value.text;
      if (said !== undefined) found[name] = Array.isArray(said) ? said[0] : said;
    }
    return found;
  }

  focus() {
    const first = [...this.controls.values()].find((one) => one.asks && one.tag === "TextArea");
    const field = first && this.textFields().get(first.name)?.[0];
    (field ?? this.place.querySelector("textarea, input, [tabindex='0']"))?.focus();
  }

  // Focuses the field that a message names by its heading.
  focusOn(sentence) {
    for (const [name, [field]] of this.textFields()) {
      const {heading} = this.controls.get(name);
      if (heading && sentence.includes(`“${heading}”`)) field.focus();
    }
  }

  // The text fields by control. A text that was added has its own id after the control's name.
  textFields() {
    const found = new Map();
    for (const field of this.place.querySelectorAll("textarea[name]")) {
      const [name] = field.name.split(":");
      if (this.controls.get(name)?.tag === "TextArea" && name !== "feedback") {
        found.set(name, [...(found.get(name) ?? []), field]);
      }
    }
    return found;
  }

  listen(editor) {
    const changed = () => { if (!this.showing) this.onChange(); };
    for (const event of ["input", "change", "click", "keyup"]) this.place.addEventListener(event, () => setTimeout(changed));
    for (const event of ["entityCreate", "entityDelete", "regionFinishedDrawing"]) editor.on(event, () => setTimeout(changed));
    // The editor also reports a finished text when the field only lost focus; only an explicit action uses an attempt.
    const asks = (target) => this.controls.get(target?.name?.split(":")[0])?.asks;
    let meant = false;
    this.place.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.shiftKey || event.isComposing || !asks(event.target)) return;
      meant = true;
      setTimeout(() => { if (meant) this.onAsk(); meant = false; });
    }, true);
    this.place.addEventListener("submit", (event) => {
      if (asks(event.target.querySelector("textarea")) && !meant) setTimeout(() => this.onAsk());
    }, true);
    new MutationObserver(() => this.dress()).observe(this.place, {childList: true, subtree: true});
  }

  // Gives the editor's fields a text direction and accessible names.
  dress() {
    for (const place of this.place.querySelectorAll("textarea, .lsf-htx-richtext, [data-testid='htx-textbox-content']")) {
      if (place.dir !== "auto") place.dir = "auto";
    }
    for (const [name, fields] of this.textFields()) {
      const {heading} = this.controls.get(name);
      const title = filledIn(heading, this.task);
      for (const field of fields) {
        if (title && field.getAttribute("aria-label") !== title) field.setAttribute("aria-label", title);
        // The panel's own button asks the model.
        const add = this.controls.get(name).asks && field.form?.querySelector("[data-testid='textarea-submit-section']");
        if (add && !add.hidden) add.hidden = true;
      }
    }
  }
}

// Marks words of a passage without a mouse: they are typed, found in the passage, and shown as if marked.
const LABEL = "Answer";
const MARK = gettext("Mark it");
const NO_WORDS = gettext("Type some words of the passage first.");
const NOT_FOUND = gettext("These words do not stand in the passage like that. Copy them exactly.");

const placesOf = (passage, words) => {
  const found = [];
  const [text, wanted] = [passage.toLocaleLowerCase(), words.toLocaleLowerCase()];
  // Lower case can be longer than upper case; then only exact words are found.
  const [where, what] = text.length === passage.length ? [text, wanted] : [passage, words];
  for (let place = where.indexOf(what); what && place >= 0; place = where.indexOf(what, place + 1)) found.push(place);
  return found;
};

export class SpanMarker {
  // `mark` shows a result in the editor instead of what was marked before.
  constructor(editor, mark) {
    this.editor = editor;
    this.mark = mark;
    this.control = [...editor.controls.values()].find((one) => one.tag === "Labels");
    if (!this.control) return;
    at("span").hidden = false;
    at("span-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find(at("span-text").value.trim());
    });
    at("span-text").addEventListener("input", () => { at("span-mark").textContent = MARK; this.last = ""; });
  }

  show() {
    if (!this.control) return;
    this.last = "";
    at("span-text").value = "";
    at("span-mark").textContent = MARK;
    setText(at("span-note"), "");
  }

  find(words) {
    if (!words) {
      setText(at("span-note"), NO_WORDS);
      return;
    }
    const passage = this.editor.task[this.control.toName];
    const places = placesOf(passage, words);
    if (!places.length) {
      setText(at("span-note"), NOT_FOUND);
      return;
    }
    const turn = words === this.last ? this.turn + 1 : 0;
    this.last = words;
    this.turn = turn;
    const start = places[turn % places.length];
    const end = start + words.length;
    const text = passage.slice(start, end);
    const {name, toName} = this.control;
    const others = this.editor.result().filter((one) => one.from_name !== name);
    const value = {start, end, text, labels: [LABEL]};
    this.mark([...others, {id: `span${start}`, from_name: name, to_name: toName, type: "labels", value}]);
    at("span-mark").textContent = places.length > 1 ? gettext("Mark the next") : MARK;
    const which = {words: text, place: (turn % places.length) + 1, all: places.length};
    setText(at("span-note"), places.length > 1
      ? gettext("Marked, place %(place)s of %(all)s: “%(words)s”", which)
      : gettext("Marked: “%(words)s”", which));
  }
}
