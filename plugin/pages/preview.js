// One template in the editor, with a sample task. What is submitted is shown, not sent.
"use strict";

(async () => {
  const setup = JSON.parse(document.getElementById("setup").textContent);
  const place = document.getElementById("label-studio");
  const submitted = document.getElementById("submitted");

  // The editor takes Enter anywhere in the page for itself, also from links.
  document.querySelector("nav").addEventListener("keydown", (event) => event.stopPropagation());

  const show = (_, annotation) => {
    submitted.hidden = false;
    submitted.querySelector("pre").textContent = JSON.stringify(annotation.serializeAnnotation(), null, 2);
    submitted.scrollIntoView({block: "nearest"});
  };

  const LabelStudio = await window.loadEditor(setup);
  const editor = new LabelStudio(place, {
    config: setup.config,
    task: setup.task,
    // Without `topbar` there is no Submit.
    interfaces: ["basic", "topbar", "controls", "submit", "update"],
    user: {id: 1, pk: 1, firstName: "Sample", lastName: "Worker"},
    onLabelStudioLoad(store) {
      const annotations = store.annotationStore;
      annotations.selectAnnotation(annotations.addAnnotation({userGenerate: true}).id);
      place.removeAttribute("aria-busy");
    },
    onSubmitAnnotation: show,
    onUpdateAnnotation: show,
  });
  if (setup.prediction) {
    editor.on("regionFinishedDrawing", () => {
      window.Htx.loadSuggestions(Promise.resolve(setup.prediction), ({result}) => result);
    });
  }
})();
