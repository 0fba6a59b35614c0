// The response to a submission, possibly in a nested frame: notifies the marketplace's own page, which then continues.
"use strict";

{
  const outcome = document.getElementById("outcome");
  const notify = (what) => window.top.postMessage({...what, assignment: outcome.dataset.assignment}, "*");

  if (window.top !== window) {
    notify({outfox: outcome.dataset.outcome});
    for (const link of outcome.querySelectorAll("a")) {
      // The frame may not navigate the page around it; that page follows the link itself.
      link.addEventListener("click", (event) => {
        event.preventDefault();
        notify({outfox: "leave", to: new URL(link.href).pathname});
      });
    }
  }
}
