// Dynascore, as `outfox/dynascore.py` computes it. A test compares both.

const PERFORMANCE = "performance";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/**
 * Returns averages, rates, scores, ranks and swaps of a table: for each axis and data set, one value per model.
 * Models are in the order of their names, which decides between equal ones.
 */
export function compute({models, axes, table, dataWeight, cutoff}, weights, dataWeights) {
  const weightOf = (data) => dataWeights[data] ?? dataWeight;
  const columns = axes.flatMap(({name}) => Object.entries(table[name])
    .filter(([data, values]) => weightOf(data) > 0 && values.some(isNumber))
    .map(([data, values]) => ({axis: name, data, values})));
  const measured = axes.filter(({name}) => columns.some(({axis}) => axis === name));
  const chosen = (axis) => weights[axis] ?? 0;
  const leftOut = {};
  for (const {axis, data, values} of columns) {
    if (chosen(axis) > 0 || axis === PERFORMANCE) {
      values.forEach((value, model) => {
        if (!isNumber(value)) leftOut[model] ??= `no value for ${axis} on ${data}`;
      });
    }
  }
  const averages = Object.fromEntries(measured.map(({name}) => {
    const own = columns.filter(({axis}) => axis === name);
    const total = own.reduce((sum, {data}) => sum + weightOf(data), 0);
    const mean = (model) => own.reduce((sum, {data, values}) =>
      sum + (isNumber(values[model]) ? values[model] : NaN) * (weightOf(data) / total), 0);
    return [name, models.map((_, model) => mean(model))];
  }));
  const found = {averages, leftOut, rates: {}, scores: {}, ranks: {}, order: [], swaps: [], problem: ""};
  const fail = (problem) => ({...found, problem});
  if (!measured.some(({name}) => chosen(name) > 0)) return fail("none of the axes with a weight has figures");
  const ranked = models.map((_, model) => model).filter((model) => !(model in leftOut));
  if (!averages[PERFORMANCE]) return fail("no model has a value for performance");
  if (ranked.length < 2) return fail("a Dynascore needs two models that have all values");
  ranked.sort((a, b) => averages[PERFORMANCE][a] - averages[PERFORMANCE][b] || a - b);
  const turned = new Map(measured
    .filter(({name}) => ranked.every((model) => isNumber(averages[name][model])))
    .map(({name, direction, offset}) => [name, ranked.map((model) => direction * averages[name][model] + offset)]));
  const steps = differences(turned.get(PERFORMANCE));
  const least = cutoff * Math.max(...turned.get(PERFORMANCE));
  const counted = steps.map((step) => Math.abs(step) > least);
  if (!counted.some(Boolean)) return fail("all models have the same performance");
  const terms = new Map();
  for (const [axis, values] of turned) {
    const parts = differences(values).map((change, place) => Math.abs(change) / steps[place])
      .filter((_, place) => counted[place]);
    found.rates[axis] = parts.reduce((sum, one) => sum + one, 0) / parts.length;
    if (found.rates[axis]) terms.set(axis, values.map((value) => value / Math.abs(found.rates[axis])));
  }
  const total = [...terms.keys()].reduce((sum, axis) => sum + chosen(axis), 0);
  if (!total) return fail("no axis with a weight differs between the models");
  ranked.forEach((model, place) => {
    found.scores[model] = [...terms].reduce((sum, [axis, values]) => sum + chosen(axis) / total * values[place], 0);
  });
  found.order = [...ranked].sort((a, b) => found.scores[b] - found.scores[a] || a - b);
  for (const model of found.order) {
    found.ranks[model] = 1 + found.order.filter((other) => found.scores[other] > found.scores[model]).length;
  }
  const place = new Map(ranked.map((model, index) => [model, index]));
  for (let index = 0; index + 1 < found.order.length; index += 1) {
    found.swaps.push(...swapsOf(found.order[index], found.order[index + 1], place, terms, chosen));
  }
  return found;
}

/** Returns the weight of each axis at which two neighbours have the same score. */
function swapsOf(above, below, place, terms, chosen) {
  const gaps = [...terms].map(([axis, values]) => [axis, values[place.get(above)] - values[place.get(below)]]);
  const lead = gaps.reduce((sum, [axis, gap]) => sum + chosen(axis) * gap, 0);
  const total = gaps.reduce((sum, [axis]) => sum + chosen(axis), 0);
  return gaps.flatMap(([axis, gap]) => {
    const weight = gap ? chosen(axis) - lead / gap : -1;
    const valid = lead > 0 && weight >= 0 && total - chosen(axis) + weight > 0;
    return valid ? [{above, below, axis, weight: chosen(axis), swapWeight: weight}] : [];
  });
}

/** Returns the swap whose weight has to change least. */
export function nearest(swaps) {
  const change = (swap) => Math.abs(swap.swapWeight - swap.weight);
  return swaps.reduce((best, one) => (best === null || change(one) < change(best) ? one : best), null);
}

function differences(values) {
  return values.slice(1).map((value, place) => value - values[place]);
}
