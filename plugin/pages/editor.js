// Label Studio's editor without Label Studio around it. Stands between the bundle's runtime and its main file.
"use strict";

window.APP_SETTINGS = {
  hostname: location.origin, user: {id: 1}, billing: {}, debug: false,
  feature_flags: {}, feature_flags_default_value: true,
};

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
