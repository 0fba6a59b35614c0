// Screens, messages and dialogs around the work, and one action at a time.

import {gettext} from "./translation.js";

export const at = (id) => document.getElementById(id);

const SCREENS = {loading: "loading", consent: "consent", ready: "work", submitted: "done", over: "over", error: "error", nothing: "nothing"};

// Sets a text only if it changes: a live region would read the same again.
export const setText = (place, text) => {
  if (place && place.textContent !== text) place.textContent = text;
};

export const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

// Shows one screen and focuses its heading.
export const showScreen = (state) => {
  const was = document.body.dataset.state;
  for (const id of Object.values(SCREENS)) {
    if (at(id)) at(id).hidden = id !== SCREENS[state];
  }
  document.body.dataset.state = state;
  if (state !== was && state !== "ready") at(SCREENS[state])?.querySelector("h1")?.focus();
};

export const announce = (text) => setText(at("told"), text);

export const clearError = () => {
  at("trouble").hidden = true;
  setText(at("trouble-text"), "");
};

// Shows an error; `action` is what its button does, if something helps.
export const showError = (text, action = null, label = gettext("Try again")) => {
  setText(at("trouble-text"), text);
  at("trouble").hidden = false;
  setText(at("trouble-again"), label);
  at("trouble-again").hidden = action === null;
  at("trouble-again").onclick = action && (() => { clearError(); action(); });
  at("trouble").scrollIntoView({block: "nearest"});
};

// Keeps the text that is being written between the strip above and the panel below, which change their size, as does the
// window when a phone's keyboard opens.
export const keepFieldInView = () => {
  const dock = document.querySelector(".work-dock");
  const scroll = () => {
    document.documentElement.style.setProperty("--dock", `${dock.offsetHeight}px`);
    const field = document.activeElement;
    if (field?.matches("#editor textarea")) field.scrollIntoView({block: "nearest"});
  };
  new ResizeObserver(scroll).observe(dock);
  addEventListener("resize", scroll);
};

let busy = false;

export const isBusy = () => busy;

// Runs one action at a time; others, such as the second of two clicks, are ignored meanwhile.
export const once = async (act) => {
  if (busy) return;
  busy = true;
  document.body.dataset.busy = "";
  try {
    await act();
  } finally {
    busy = false;
    delete document.body.dataset.busy;
  }
};

// Opens a dialog from a button, which gets the focus back.
export const openDialog = (id) => {
  const dialog = at(id);
  const field = dialog.querySelector("textarea");
  field.value = "";
  dialog.showModal();
  field.focus();
};

// Storage, if the browser allows it to a page in a frame; otherwise nothing is stored.
const memory = (storage) => ({
  get(key) {
    try {
      return window[storage].getItem(key);
    } catch {
      return null;
    }
  },
  set(key, value) {
    try {
      window[storage].setItem(key, value);
    } catch {
      // Not stored.
    }
  },
  forget(key) {
    try {
      window[storage].removeItem(key);
    } catch {
      // Nothing was stored.
    }
  },
});

export const localMemory = memory("localStorage");
export const tabMemory = memory("sessionStorage");

const BROWSER = "outfox.browser";

// Also on http pages, which have no crypto.randomUUID().
const randomKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// The key by which the server knows this browser again. If storage is blocked or was cleared, the frame's name still has
// it after a reload.
export const browserKey = () => {
  const named = window.name.startsWith(`${BROWSER}.`) ? window.name.slice(BROWSER.length + 1) : null;
  const key = localMemory.get(BROWSER) ?? named ?? randomKey();
  localMemory.set(BROWSER, key);
  window.name = `${BROWSER}.${key}`;
  return key;
};
