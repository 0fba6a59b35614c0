// Live ranking: computes scores in the browser while weights change, and sorts tables without loading the page again.
import {compute, nearest} from "./dynascore.js";

const payload = document.getElementById("payload");
const form = document.getElementById("weights");
const link = document.getElementById("link");
if (link) {
  link.value = new URL(link.value, location.href).href;
  link.addEventListener("focus", () => link.select());
}
if (payload && form) start(JSON.parse(payload.textContent), form);

function start(data, form) {
  const tables = ["board", "rounds-table"].map((id) => document.getElementById(id));
  const sliders = [...form.querySelectorAll("input[type=range]")];
  const initial = JSON.stringify(values(sliders));
  let sort = initialSort(tables);
  for (const slider of sliders) {
    slider.addEventListener("input", () => {
      // A pointer stops anywhere; people think in tenths.
      slider.value = Math.round(slider.value * 10) / 10;
      slider.parentElement.querySelector("output").textContent = number(Number(slider.value));
      rank();
    });
  }
  for (const table of tables) {
    for (const head of table.tHead.querySelectorAll("th[data-key]")) {
      head.querySelector("a").addEventListener("click", (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        const again = sort.key === head.dataset.key;
        const ascends = head.dataset.key === "model" || head.textContent.includes("lower is better");
        sort = {key: head.dataset.key, down: again ? !sort.down : !ascends};
        order();
      });
    }
  }

  function rank() {
    const {weights, dataWeights} = values(sliders);
    const found = compute(data, weights, dataWeights);
    data.models.forEach(({id}, model) => {
      const row = tables[0].querySelector(`tr[data-model="${CSS.escape(id)}"]`);
      if (row === null) return;
      const rank = found.ranks[model];
      const cell = row.querySelector(".board-rank");
      row.toggleAttribute("data-moved", cell.dataset.first !== undefined && cell.dataset.first !== String(rank ?? "–"));
      cell.dataset.first ??= cell.textContent.trim();
      cell.textContent = rank ?? "–";
      show(row.querySelector(".board-score"), found.scores[model], 2);
      for (const one of row.querySelectorAll("td[data-axis]")) show(one, found.averages[one.dataset.axis]?.[model], 1);
      explain(row, found.leftOut[model]);
    });
    document.getElementById("swap").textContent = sentence(found, data);
    const rates = document.querySelectorAll(".board-rates > div");
    for (const one of rates) {
      const rate = found.rates[one.querySelector("dt").textContent.replaceAll(" ", "_")];
      one.querySelector("dd").textContent = rate === undefined ? "–" : shown(rate, 4);
    }
    document.getElementById("swaps")?.closest("details").remove();
    share(weights, dataWeights);
    if (sort.key === "score" || sort.key.startsWith("axis.")) order();
  }

  function share(weights, dataWeights) {
    const url = new URL(data.base, location.href);
    if (data.board) url.searchParams.set("board", data.board);
    const parts = [...Object.entries(weights).map(([name, weight]) => [`w.${name}`, weight]),
      ...Object.entries(dataWeights).map(([name, weight]) => [`d.${name}`, weight])];
    if (JSON.stringify(values(sliders)) !== initial || location.search.includes("w.")) {
      for (const [name, weight] of parts) url.searchParams.set(name, String(weight));
    }
    link.value = url.href;
    history.replaceState(null, "", url);
    const save = document.getElementById("save");
    for (const [name, weight] of save ? parts : []) {
      const field = [...save.elements].find((one) => one.name === name);
      if (field) field.value = String(weight);
    }
    for (const one of document.querySelectorAll('a[href*="/ranking."], a[href*="/figures."]')) {
      const file = new URL(one.href);
      file.search = url.search;
      one.href = file.href;
    }
  }

  function order() {
    const source = tables.find((table) => table.tHead.querySelector(`[data-key="${CSS.escape(sort.key)}"]`) &&
      (sort.key !== "model" || table === tables[0]));
    const heads = [...source.tHead.rows[0].cells];
    const place = heads.findIndex((head) => head.dataset.key === sort.key);
    const key = (row) => {
      if (sort.key === "model") return row.cells[place].querySelector("bdi").textContent;
      const written = row.cells[place].dataset.sort;
      return written === "" ? null : Number(written);
    };
    const ids = [...source.tBodies[0].rows].map((row) => [key(row), row.dataset.model])
      .sort(([a], [b]) => compare(a, b, sort.down)).map(([, id]) => id);
    for (const table of tables) {
      const rows = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.model, row]));
      table.tBodies[0].append(...ids.map((id) => rows.get(id)).filter(Boolean));
      for (const head of table.tHead.querySelectorAll("th[data-key]")) {
        if (head.dataset.key === sort.key) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      }
    }
  }
}

function initialSort(tables) {
  const head = tables.map((table) => table.tHead.querySelector("th[aria-sort]")).find(Boolean);
  return head ? {key: head.dataset.key, down: head.getAttribute("aria-sort") === "descending"} : {key: "score", down: true};
}

/** Returns the weights of axes and data sets, by the names of the sliders: w.AXIS and d.DATA. */
function values(sliders) {
  const of = (prefix) => Object.fromEntries(sliders.filter(({name}) => name.startsWith(prefix))
    .map(({name, value}) => [name.slice(prefix.length), Math.round(Number(value) * 100) / 100]));
  return {weights: of("w."), dataWeights: of("d.")};
}

function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null);
  const found = a < b ? -1 : a > b ? 1 : 0;
  return down ? -found : found;
}

function show(cell, value, digits) {
  const valid = typeof value === "number" && Number.isFinite(value);
  cell.textContent = valid ? shown(value, digits) : "–";
  cell.dataset.sort = valid ? String(value) : "";
}

function explain(row, why) {
  const head = row.querySelector("th");
  const text = head.querySelector(".board-why") ?? head.appendChild(document.createElement("span"));
  text.className = "board-why";
  text.textContent = why ?? "";
}

function sentence({problem, swaps}, {models}) {
  if (problem) return `There is no ranking: ${problem}.`;
  const swap = nearest(swaps);
  if (swap === null) return "No change of a single weight alters the ranking.";
  const beyond = swap.swapWeight > swap.weight ? "above" : "below";
  return `${models[swap.below].name} would rank before ${models[swap.above].name} with a weight of ` +
    `${swap.axis.replaceAll("_", " ")} ${beyond} ${swap.swapWeight.toFixed(2)} instead of ${number(swap.weight)}.`;
}

function shown(value, digits) {
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : value.toFixed(digits);
}

function number(value) {
  return String(Math.round(value * 100) / 100);
}
