// What is around the work: which screen shows, what is told, dialogs, and one thing at a time.

export const at = (id) => document.getElementById(id);

const SCREENS = {loading: "loading", consent: "consent", ready: "work", submitted: "done", over: "over", error: "error"};

export const dollars = (cents) => `$${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, "0")}`;

export const counted = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

// Text that changes only when it does: a live region would read the same again.
export const say = (place, text) => {
  if (place && place.textContent !== text) place.textContent = text;
};

export const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

// Shows one screen; the reader of the page is led to its heading.
export const showScreen = (state) => {
  const was = document.body.dataset.state;
  for (const id of Object.values(SCREENS)) {
    if (at(id)) at(id).hidden = id !== SCREENS[state];
  }
  document.body.dataset.state = state;
  if (state !== was && state !== "ready") at(SCREENS[state])?.querySelector("h1")?.focus();
};

export const tell = (text) => say(at("told"), text);

export const clearTrouble = () => {
  at("trouble").hidden = true;
  say(at("trouble-text"), "");
};

// One sentence about what went wrong; `again` is what the button for it does, where something helps.
export const showTrouble = (text, again = null) => {
  say(at("trouble-text"), text);
  at("trouble").hidden = false;
  at("trouble-again").hidden = again === null;
  at("trouble-again").onclick = again && (() => { clearTrouble(); again(); });
  at("trouble").scrollIntoView({block: "nearest"});
};

let busy = false;

export const isBusy = () => busy;

// Does one thing at a time: what is asked for meanwhile, as by the second click of two, is not done.
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

// A dialog that opens from a button and gives the focus back to it; `send` may be tried again.
export const openDialog = (id) => {
  const dialog = at(id);
  const field = dialog.querySelector("textarea");
  field.value = "";
  dialog.showModal();
  field.focus();
};

// Remembered where the browser lets a page in a frame remember anything; that it does not is no error.
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
      // Then it is not remembered.
    }
  },
  forget(key) {
    try {
      window[storage].removeItem(key);
    } catch {
      // There was nothing.
    }
  },
});

export const remembered = memory("localStorage");
export const untilClosed = memory("sessionStorage");
