// The pictures of an answer, of a comparison and of what would be if. Every picture is a panel: it says when it is old.

import { ask, SPEC, ApiError } from "./api.js";
import { figure, given, parts, seriesOf } from "./chart.js";
import { byId, element, fill } from "./dom.js";
import { openField } from "./form.js";
import { leftOut } from "./panels.js";
import { Panel } from "./phase.js";
import { inPlainWords } from "./plain_words.js";
import * as requests from "./requests.js";
import { claimsNothing } from "./sentences.js";

const figures = new Map();  // by name: {drawn, panel, host}
const QUANTITY_TITLES = { epsilon: "Epsilon", trade_off: "Share of members found, at the rate of false accusations", reconstruction: "Chance of a reconstruction" };
const note = new Panel(byId("charts-note"), () => { byId("charts-note").textContent = ""; });
const whatIfPanel = new Panel(byId("what-if"), () => fill(byId("sweeps")));

function figureFor(name, host) {
  if (!figures.has(name)) {
    const drawn = figure(name);
    byId(host).append(drawn.node);
    figures.set(name, { drawn, host, panel: new Panel(drawn.node, () => { drawn.note(); drawn.hide(); }) });
  }
  return figures.get(name);
}

const worded = (part) => (part.title?.subtitle ? { ...part, title: { ...part.title, subtitle: [part.title.subtitle].flat().map(inPlainWords) } } : part);

// Draw the pictures of a response, each in its place. The parts that were drawn.
export async function show(path, body, asked, { most = Infinity, host = "charts" } = {}) {
  const spec = await ask(path, body, { accept: SPEC, signal: asked.signal });
  if (!String(spec.$schema ?? "").includes("vega-lite")) return [];  // a server without this form
  const shown = [];
  for (const part of parts(spec).slice(0, most)) {
    const place = figureFor(`${host === "charts" ? "chart" : host}-${part.name ?? "all"}`, host);
    if (!asked.isCurrent) return shown;
    await place.drawn.show(worded(part));
    place.panel.hold(asked);
    if (!asked.isCurrent) return shown;
    shown.push(part);
    performance.mark("picture");
  }
  return shown;
}

// Take away the pictures of a place that are of an earlier form.
export function clearOld(asked, host) {
  for (const each of figures.values()) if (each.host === host) each.panel.clearIfOld(asked);
}

// All pictures of an answer. Where some cannot be made, the note says why.
export async function pictures({ body, response }, asked, state) {
  const showNote = (words) => note.put(asked, () => { byId("charts-note").textContent = words; });
  if (asked.isCurrent) note.clear();
  if (claimsNothing(response)) {
    clearOld(asked, "charts");
    showNote("No charts, because nothing is proved about this run.");
    return;
  }
  try {
    const shown = await show("/v1/assessments", body, asked);
    const roc = shown.find((part) => part.name === "roc");
    if (roc && asked.isCurrent) figures.get("chart-roc").drawn.note(leftOut(response, seriesOf(roc), openField));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const why = error.isTooLong ? "They take longer than the server allows for one request." : error.message;
    showNote(`Some charts of this run are missing. ${why}`);
    if (!response.judged_as && !response.threat_model.records) await ignoreFailures(show("/v1/curves", requests.curves(state), asked, { most: 1 }));
  }
  clearOld(asked, "charts");
}

// Run some work. After an ApiError, return null and leave its place empty.
export async function ignoreFailures(work) {
  try {
    return await work;
  } catch (error) {
    if (error.name !== "AbortError" && !(error instanceof ApiError)) throw error;
    return null;
  }
}

// The numbers of the run against its noise or its length, with the least noise that keeps the limit, and the limit where
// numbers decide it.
export async function whatIf(run, calibrated, asked, state, isDecidable) {
  const axis = document.querySelector("input[name=axis]:checked").value;
  const body = run && requests.sweep(state, run, axis);
  if (!body) {
    if (axis === "noise" || !run) { if (asked.isCurrent) whatIfPanel.clear(); return; }
    whatIfPanel.put(asked, () => fill(byId("sweeps"), element("p", { class: "help" }, "This run has no length that can vary.")));
    return;
  }
  let spec = null;
  try {
    spec = await ask("/v1/sweeps", body, { accept: SPEC, signal: asked.signal });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    whatIfPanel.put(asked, () => fill(byId("sweeps"), missing(error)));
    return;
  }
  const made = element("div", {});
  const limit = isDecidable ? requests.limitOf(state) : null;
  const least = axis === "noise" ? calibrated : null;
  const words = element("p", { class: "help" }, explained(run, limit, least));
  if (!whatIfPanel.put(asked, () => fill(byId("sweeps"), words, made))) return;
  await drawSweeps(spec, made, limit, least, asked, state);
}

// What can be seen in the pictures, and of which run they are.
function explained({ change }, limit, least) {
  return [
    "All other numbers stay fixed.",
    limit && "The limit is kept in the shaded region.",
    least !== null && "The dotted vertical line is the least noise that keeps the limit.",
    change && inPlainWords(change),
  ].filter(Boolean).join(" ");
}

async function drawSweeps(spec, host, limit, calibrated, asked, state) {
  const kinds = Object.keys(requests.questions(state));
  const shown = parts(spec).filter((part) => !/type.?two/i.test(String(part.title?.text)));
  for (const [index, part] of shown.entries()) {
    const numbers = calibrated !== null ? { calibrated } : {};
    if (limit && kinds[index] === state.limit.kind) numbers[String(part.name).replace("sweep", "target")] = limit.at_most;
    const made = figure(`what-if-${index}`);
    host.append(made.node);
    if (!asked.isCurrent) return;
    await made.show({ ...given(part, numbers), title: QUANTITY_TITLES[kinds[index]] });
  }
}

function missing(error) {
  if (!error.isTooLong) return element("p", { class: "help" }, `These charts could not be computed. ${error.message}`);
  return element("p", { class: "help" }, "These charts take longer than the server allows for one request. ",
    element("a", { href: "/guide/jobs.html" }, "A job"), " can compute their numbers.");
}

// Empty the pictures of what would be if: another axis was chosen.
export const clearWhatIf = (asked) => whatIfPanel.put(asked, () => fill(byId("sweeps"), element("p", { class: "help" }, "Asking …")));
