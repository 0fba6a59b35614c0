// The desk: Label Studio's editor with one item on it, and what is written there at any moment.

const INTERFACES = ["basic", "controls"];
const ASKS = "smartOnly";
const TYPED = "typed";
const PATIENCE_MS = 60_000;

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
  // Before our own sheet, which has the last word.
  document.head.prepend(sheet);
});

// What the template says of each thing to fill in: its kind, what it is about, its heading, whether the model reads it.
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

export class Desk {
  constructor(place, setup) {
    this.place = place;
    this.setup = setup;
    this.controls = controlsOf(setup.config);
    this.onChange = () => {};
    this.onAsk = () => {};
  }

  // The editor's class, loaded once; whoever knows that it will be needed asks early.
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

  // Starts the editor; from then on items can be shown.
  async open(task) {
    const LabelStudio = await this.load();
    const root = document.createElement("div");
    this.place.append(root);
    const editor = await new Promise((loaded, failed) => {
      setTimeout(() => failed(new Error("the editor does not start")), PATIENCE_MS);
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

  // Puts an item on the desk, as it was left.
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

  // Everything that is on the desk, also what is typed and not yet taken in by the editor.
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

  // What the model would be asked about: texts, choices and marked words by the names of their controls.
  asked(result = this.result()) {
    const found = {};
    for (const {from_name: name, value} of result) {
      const control = this.controls.get(name);
      // The editor also hangs the label on results that have no place in a text.
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

  // Leads to the field that a sentence calls by its heading.
  focusOn(sentence) {
    for (const [name, [field]] of this.textFields()) {
      const {heading} = this.controls.get(name);
      if (heading && sentence.includes(`“${heading}”`)) field.focus();
    }
  }

  // The fields to write in, by control. A text that was taken in has its own id behind the control's name.
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
    // The editor tells of a finished text also when it only lost the focus; a try is used by what was meant to ask.
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

  // The editor's fields read in the direction of their text, and have names.
  dress() {
    for (const place of this.place.querySelectorAll("textarea, .lsf-htx-richtext, [data-testid='htx-textbox-content']")) {
      if (place.dir !== "auto") place.dir = "auto";
    }
    for (const [name, fields] of this.textFields()) {
      const {heading} = this.controls.get(name);
      const title = heading.replace(/\$(\w+)/g, (_, key) => this.task?.[key] ?? "");
      for (const field of fields) {
        if (title && field.getAttribute("aria-label") !== title) field.setAttribute("aria-label", title);
      }
    }
  }
}
