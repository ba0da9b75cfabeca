// The page: what is typed becomes requests, answers become words and pictures.

import "./trusted.js";
import { ask, askPatiently, setKey, SPEC, Trouble } from "./api.js";
import { figure, given, parts, seriesOf } from "./chart.js";
import { save, textOf, toClipboard } from "./copies.js";
import { byId, element, fill } from "./dom.js";
import { changeRuns, clearErrors, listen, showError, showForm, showRuns } from "./form.js";
import { leftOut, showAssumptions, showCalibration, showComparison, showGlossary, showHazards, showVerdict } from "./panels.js";
import * as requests from "./requests.js";
import { sentences } from "./sentences.js";
import { activeRun, freshState, isFresh, linkOf, readLink } from "./state.js";

const QUIET_MS = 350;  // after the last key, until all is asked
const ASKING = "Asking …";
const AS_A_JOB = "This run takes longer to compute than the server lets anybody wait. It goes on as a job, and the answer comes here.";
const DRAG_MS = 30;  // the same, for the picture under a slider

let state = freshState();
let timer = null;
let dragTimer = null;
let asking = new AbortController();
let dragging = new AbortController();
let answered = null;  // the body that the words on the page are of
let resolved = null;  // the run as the server read it
let calibrated = null;  // the least noise that keeps the limit
const figures = new Map();
let copies = 0;  // how many were asked for
let drawn = new Set();  // the figures that show what was asked last
const COMPARED = "compared-charts";
const WHAT_IF = { epsilon: "Epsilon", trade_off: "Share of members found, at the rate of false accusations", reconstruction: "Chance of a reconstruction" };

function start() {
  const kept = history.state?.typed;
  const { state: linked, notices } = readLink(location.hash);
  state = !location.hash && kept ? kept : linked;
  showGlossary(byId("glossary"));
  showAll();
  listen(() => state, changed);
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); answer(); });
  byId("add-run").addEventListener("click", () => runsChanged({ added: true }));
  byId("reset").addEventListener("click", () => { state = freshState(); setKey(byId("key").value); showAll(); answer(); });
  byId("key").addEventListener("change", () => { setKey(byId("key").value); answer(); });
  byId("copies").addEventListener("click", (event) => { if (event.target.dataset.copy) copy(event.target.dataset.copy); });
  byId("report").addEventListener("click", report);
  byId("what-if").addEventListener("change", () => { if (resolved) whatIf(asking.signal); });
  document.addEventListener("click", within);
  addEventListener("hashchange", () => {
    const read = readLink(location.hash);
    state = read.state;
    showAll();
    answer(read.notices);
  });
  answer(notices);
}

// To a place of this page. The address keeps what it says: its end is the form.
function within(event) {
  const place = event.target.closest?.("a[href^='#']")?.getAttribute("href").slice(1);
  if (!place || !byId(place)) return;
  event.preventDefault();
  byId(place).scrollIntoView();
  byId(place).focus({ preventScroll: true });
}

function showAll() {
  clearErrors();
  showForm(state);
  showRuns(state, runsChanged);
}

function changed({ dragging: isDragging }) {
  showRuns(state, runsChanged);
  clearTimeout(timer);
  timer = setTimeout(answer, QUIET_MS);
  if (isDragging) {
    clearTimeout(dragTimer);
    dragTimer = setTimeout(drag, DRAG_MS);
  }
}

function runsChanged(change) {
  changeRuns(state, change);
  showAll();
  answer();
}

// Only the picture that follows a slider; a newer position gives up the request of the one before.
async function drag() {
  dragging.abort();
  dragging = new AbortController();
  const { signal } = dragging;
  try {
    if (state.runs.length > 1) await show("/v1/comparisons", requests.comparison(state), signal, { most: 1, host: COMPARED });
    else await show("/v1/curves", requests.curves(state), signal, { most: 1 });
  } catch (error) {
    const isTold = error instanceof Trouble || error instanceof requests.NotJson;  // when the slider rests
    if (error.name !== "AbortError" && !isTold) throw error;
  }
}

// Everything, for the state as it is now.
async function answer(notices = []) {
  clearTimeout(timer);
  asking.abort();
  dragging.abort();
  asking = new AbortController();
  const { signal } = asking;
  drawn = new Set();
  keep();
  settled(false);
  let body;
  try {
    body = requests.assessment(state);
  } catch (error) {
    if (!(error instanceof requests.NotJson)) throw error;
    clearErrors();
    showError("paste", error.message);
    tell([...notices, `${activeRun(state).name || "This run"} was not asked about: what was pasted cannot be read.`], { retry: false });
    markStale();
    settled(true);
    return;
  }
  const slow = setTimeout(() => { byId("status").textContent = ASKING; }, 250);
  const waiting = (seconds) => {
    clearTimeout(slow);
    byId("status").textContent = `${AS_A_JOB} ${seconds ? `${seconds} s so far.` : ""}`;
  };
  try {
    const first = quietly(show("/v1/curves", requests.curves(state), signal, { most: 1 }));
    const response = await askPatiently("/v1/assessments", body, { signal, tell: waiting });
    clearErrors();
    tell(notices, { retry: false });
    showAnswer(response, body);
    await Promise.all([first.then(() => pictures(body, response, signal)), imported(signal), compare(signal)]);
    // The dearest last: with few workers the others would wait for it.
    if (!signal.aborted) quietly(calibrate(signal)).then(() => whatIf(signal));
  } catch (error) {
    if (error.name === "AbortError") return;
    trouble(error, notices);
  } finally {
    clearTimeout(slow);
    if (!signal.aborted) settled(true);
  }
}

// For who waits: readers of the screen, and tests.
function settled(isSettled) {
  document.documentElement.dataset.state = isSettled ? "settled" : "asking";
  byId("results").setAttribute("aria-busy", String(!isSettled));
  const { textContent } = byId("status");
  if (isSettled && (textContent === ASKING || textContent.startsWith(AS_A_JOB))) byId("status").textContent = "";
}

function showAnswer(response, body) {
  answered = body;
  resolved = response.mechanism;
  byId("results").classList.remove("stale");
  performance.mark("words");
  byId("example").hidden = !isFresh(state);
  fill(byId("sentences"), sentences(response).map((each) => element("li", {}, each)));
  showVerdict(byId("verdict-body"), response);
  showAssumptions(byId("assumptions"), response, state.attested, attest);
  showHazards(byId("hazards"), response);
  byId("engine").textContent = `privacy-bounds, engine ${response.engine_version}, result ${response.digest}`;
}

function attest(code, said) {
  if (said) state.attested[code] = said;
  else delete state.attested[code];
  answer();
}

// The pictures of an answer, each in its place: those that were drawn.
async function show(path, body, signal, { most = Infinity, host = "charts" } = {}) {
  const spec = await ask(path, body, { accept: SPEC, signal });
  if (!String(spec.$schema ?? "").includes("vega-lite")) return null;  // a server without this form
  const shown = [];
  for (const part of parts(spec).slice(0, most)) {
    const name = `${host === "charts" ? "chart" : host}-${part.name ?? "all"}`;
    if (!figures.has(name)) {
      figures.set(name, figure(name));
      byId(host).append(figures.get(name).node);
    }
    if (signal.aborted) return shown;
    await figures.get(name).show(part);
    shown.push(part);
    drawn.add(name);
    performance.mark("picture");
  }
  return shown;
}

async function pictures(body, response, signal) {
  byId("charts-note").hidden = true;
  try {
    const shown = await show("/v1/assessments", body, signal);
    const roc = shown?.find((part) => part.name === "roc");
    if (roc) figures.get("chart-roc").note(leftOut(response, seriesOf(roc), openField));
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    const why = error.isTooLong ? "They take longer to compute than the server lets anybody wait." : error.message;
    byId("charts-note").textContent = `Some pictures of this run are missing. ${why}`;
    byId("charts-note").hidden = false;
  }
  if (signal.aborted) return;
  for (const [name, each] of figures) if (name.startsWith("chart-") && !drawn.has(name)) each.hide();  // of the run before
}

// To a field of the form, also where it is folded away.
function openField(id) {
  const field = byId(id);
  const folded = field.closest("details");
  if (folded) folded.open = true;
  field.focus();
}

// What fails beside the answer leaves its place as it was.
async function quietly(work) {
  try {
    await work;
  } catch (error) {
    if (error.name !== "AbortError" && !(error instanceof Trouble)) throw error;
  }
}

async function calibrate(signal) {
  calibrated = null;
  const body = requests.calibration(state, resolved);
  if (!body) return;
  const waiting = (seconds) => { byId("calibrating").textContent = `The least noise is looked for, as a job that nobody has to wait for. ${seconds ? `${seconds} s so far.` : ""}`; };
  byId("verdict-body").append(element("p", { id: "calibrating", class: "help" }));
  const response = await askPatiently("/v1/calibrations", body, { signal, tell: waiting }).finally(() => byId("calibrating")?.remove());
  if (response.status === "met") calibrated = response.value;
  const take = activeRun(state).source === "form" ? (value) => { activeRun(state)[requests.isMean(activeRun(state)) ? "noiseStd" : "noise"] = value; showAll(); answer(); } : null;
  showCalibration(byId("verdict-body"), response, take);
}

// The numbers of the run against its noise or its length, with the limit and what keeps it.
async function whatIf(signal) {
  const axis = document.querySelector("input[name=axis]:checked").value;
  const body = requests.sweep(state, resolved, axis);
  byId("what-if").hidden = !body && axis === "noise";
  if (!body) { fill(byId("sweeps"), element("p", { class: "help" }, "This run has no length that could change.")); return; }
  await quietly((async () => {
    const spec = await ask("/v1/sweeps", body, { accept: SPEC, signal }).catch(tooLong);
    if (!spec) return;
    const limit = requests.limitOf(state);
    const place = Object.keys(requests.questions(state)).indexOf(state.limit.kind);
    const shown = parts(spec).filter((part) => !/type.?two/i.test(String(part.title?.text)));
    fill(byId("sweeps"));
    for (const [index, part] of shown.entries()) {
      const numbers = axis === "noise" && calibrated !== null ? { calibrated } : {};
      if (limit && index === place) numbers[String(part.name).replace("sweep", "target")] = limit.at_most;
      const made = figure(`what-if-${index}`);
      byId("sweeps").append(made.node);
      await made.show({ ...given(part, numbers), title: WHAT_IF[Object.keys(requests.questions(state))[index]] });
    }
  })());
}

// Of a sweep that nobody may wait for: who wants it, can have it as a job.
function tooLong(error) {
  if (!(error instanceof Trouble && error.isTooLong)) throw error;
  fill(byId("sweeps"), element("p", { class: "help" }, "These pictures take longer to compute than the server lets anybody wait. ",
    element("a", { href: "/guide/jobs.html" }, "As a job"), ", with Prefer: respond-async, POST /v1/sweeps computes their numbers."));
  return null;
}

async function imported(signal) {
  const run = activeRun(state);
  if (run.source !== "paste") return;
  const { format, content } = requests.mechanismOf(run);
  await quietly((async () => {
    const response = await ask("/v1/imports", { format, content }, { signal });
    fill(
      byId("imported"),
      element("p", {}, `Read as ${response.format}. The run:`),
      element("code", { class: "block" }, JSON.stringify(response.mechanism)),
      response.not_carried_over.length > 0 && element("ul", {}, response.not_carried_over.map((each) => element("li", {}, each))),
    );
  })());
}

async function compare(signal) {
  byId("compare").hidden = state.runs.length < 2;
  if (state.runs.length < 2) return;
  const body = requests.comparison(state);
  showComparison(byId("comparison"), await ask("/v1/comparisons", body, { signal }));
  await quietly(show("/v1/comparisons", body, signal, { host: COMPARED }));
}

function trouble(error, notices) {
  if (error instanceof requests.NotJson) {
    tell([...notices, `One of the runs to compare cannot be read. ${error.message}`], { retry: false });
    return;
  }
  if (!(error instanceof Trouble)) {
    console.error(error);
    tell([...notices, "This page failed at showing the answer. Nothing you typed is lost."], { retry: true });
    return;
  }
  clearErrors();
  const elsewhere = [];
  for (const { pointer, detail } of error.errors) {
    const field = requests.fieldOf(pointer);
    const run = /^\/runs\/(\d+)/.exec(pointer);
    const isShown = field && byId(field) && !byId(field).closest("[hidden]") && (!run || Number(run[1]) === state.active);
    if (isShown) showError(field, detail);
    else elsewhere.push(`${run ? `${state.runs[Number(run[1])]?.name}: ` : ""}${pointer || "The request"}: ${detail}`);
  }
  if (error.detail && !error.errors.length && error.status !== 401) elsewhere.push(error.detail);
  if (error.requestId && error.status >= 500) elsewhere.push(`The operators find this request under ${error.requestId}.`);
  tell([...notices, error.message, ...elsewhere], { retry: error.status !== 422 });
  markStale();
  if (error.status === 401) byId("key").closest("details").open = true;
}

function tell(sentencesToTell, { retry }) {
  const box = byId("problem");
  box.hidden = sentencesToTell.length === 0;
  fill(box, sentencesToTell.map((each) => element("p", {}, each)), retry && element("button", { type: "button", onclick: () => answer() }, "Try again"));
}

// What stands there is still true, but of what was asked before.
function markStale() {
  byId("results").classList.add("stale");
  byId("status").textContent = answered ? "What follows is of the run before." : "";
}

function keep() {
  const link = linkOf(state);
  history.replaceState({ typed: state }, "", link ?? location.pathname);
}

// What was said of the copy before is not true of this one; where two are under way, the later click counts.
async function copy(kind) {
  byId("copied-text").hidden = true;
  byId("copied").textContent = "";
  const mine = ++copies;
  try {
    const [text, said] = await textOf(kind, requests.assessment(state), state);
    if (mine !== copies) return;
    if (await toClipboard(text)) {
      byId("copied").textContent = said;
      return;
    }
    const shown = element("textarea", { rows: "8", readonly: true, "aria-label": "Text to copy" });
    shown.value = text;
    fill(byId("copied-text"), shown);
    byId("copied-text").hidden = false;
    byId("copied").textContent = "The browser does not allow copying here: this is the text.";
    shown.select();
  } catch (error) {
    if (mine === copies) byId("copied").textContent = error.message;
  }
}

async function report() {
  byId("copied").textContent = "";
  try {
    const html = await ask("/v1/assessments", requests.assessment(state), { accept: "text/html" });
    if (!/^\s*<!doctype html/i.test(html)) throw new Trouble("This server does not make reports.");
    save("privacy-report.html", "text/html", html);
    byId("copied").textContent = "Saved: privacy-report.html. Open it to print it.";
  } catch (error) {
    byId("copied").textContent = error.message;
  }
}

start();
