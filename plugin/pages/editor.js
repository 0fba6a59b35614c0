// Label Studio's editor without Label Studio around it. Stands between the bundle's runtime and its main file.
"use strict";

window.APP_SETTINGS = {
  hostname: location.origin, user: {id: 1}, billing: {}, debug: false,
  feature_flags: {}, feature_flags_default_value: true,
};

// A frame of another site may have no storage: there it throws when it is only looked at, and the bundle looks at once.
for (const name of ["localStorage", "sessionStorage"]) {
  try {
    window[name];
  } catch {
    const kept = new Map();
    const value = {
      getItem: (key) => kept.get(String(key)) ?? null,
      setItem: (key, text) => { kept.set(String(key), String(text)); },
      removeItem: (key) => { kept.delete(String(key)); },
      clear: () => kept.clear(),
      key: (place) => [...kept.keys()][place] ?? null,
      get length() { return kept.size; },
    };
    Object.defineProperty(window, name, {value});
  }
}

{
  const bundle = self.webpackChunklabelstudio;
  const push = bundle.push;
  // Each file pushes [ids, modules, entry]. Without the entry its modules are there, but the application does not start.
  bundle.push = ([ids, modules]) => push([ids, modules]);

  // The editor's class, from the numbers that the server found in the bundle.
  window.loadEditor = async ({module, chunks, styles, flags}) => {
    let load;
    window.APP_SETTINGS.feature_flags = flags;
    push([["a page of ours"], {}, (found) => { load = found; }]);
    await Promise.all(chunks.map((chunk) => load.e(chunk)));
    const sheet = document.createElement("style");
    sheet.textContent = Object.values(load(styles)).find(Array.isArray).toString();
    document.head.prepend(sheet);
    return load(module).LabelStudio;
  };
}
