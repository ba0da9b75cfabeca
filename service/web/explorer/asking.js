// One question to the server after the other, and where the answers go.

import { ask, postWithJobFallback, ApiError } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { clearErrors, isOffered, openField, showError } from "./form.js";
import { clearOld, clearWhatIf, pictures, ignoreFailures, show, whatIf } from "./figures.js";
import { showAssumptions, showComparison, showHazards } from "./panels.js";
import { begin, blank, holdsOld, onPhase, Panel, phaseNow, ticket } from "./phase.js";
import { inPlainWords } from "./plain_words.js";
import * as requests from "./requests.js";
import { claimsNothing, sentences } from "./sentences.js";
import { activeRun, isFresh } from "./state.js";
import { comparisonProblem, showProblem, showMessages } from "./problems.js";
import { claimInWords, showCalibration, showLimit, showShort } from "./verdict.js";

const COMPARED = "compared-charts";
const GAPS = {
  paste: "Paste the output of the library to get an answer.",
  "stated-epsilon": "Enter the known epsilon to get an answer.",
  claim: "Enter the claimed number to get an answer.",
  "stated-mu": "Enter the known mu to get an answer.",
  "stated-rho": "Enter the known rho to get an answer.",
};
const LIBRARIES = { opacus: "Opacus", dp_accounting: "dp-accounting", tf_privacy: "TensorFlow Privacy", jax_privacy: "JAX Privacy", riskcal: "riskcal", rdp: "an RDP accountant", zcdp: "a library with rho", privacy_bounds: "this service" };
const AS_A_JOB = "This run takes longer than the server allows for one request. It continues as a job, and the answer will appear here.";

const bare = (id, body = id) => new Panel(byId(id), () => fill(byId(body)));
const panels = {
  short: bare("short"), answer: bare("answer", "sentences"), limit: bare("verdict", "verdict-body"), calibration: bare("calibration"),
  assumptions: bare("rests", "assumptions"), hazards: bare("dangers", "hazards"), imported: bare("imported"), engine: bare("engine"),
  compare: bare("compare", "comparison"),
};
let answered = null;  // {body, response, calibrated} of the answer that stands on the page
let why = "";  // why there is no answer

// The answer to the form as it is; null where there is none.
export const answerNow = () => (panels.short.of !== null && !panels.short.isOld ? answered : null);

onPhase((phase) => {
  const root = document.documentElement;
  if (phase === "stale" || phase === "asking") Object.assign(root.dataset, { state: "asking", rest: "asking" });
  byId("results").setAttribute("aria-busy", String(phase === "asking"));
  byId("status").textContent = {
    empty: why || "There is no answer yet.",
    asking: holdsOld() ? "The form has changed. Computing …" : "Computing …",
    stale: holdsOld() ? "The form has changed. Computing …" : "Computing …",
    answered: "",
    failed: `There is no answer for this form. ${why}`,
  }[phase];
});

function settle(part) {
  document.documentElement.dataset[part] = "settled";
}

function noAnswer(words, reach) {
  why = words;
  reach();
  settle("state");
  settle("rest");
}

// Ask everything about the form as it is. `act`: what can be done from within an answer, and asked again.
export async function askAll(state, act, notices = []) {
  const run = activeRun(state);
  const gap = requests.missing(run);
  if (gap) {
    clearErrors();
    showMessages(notices);
    noAnswer(GAPS[gap], blank);
    return;
  }
  const asked = begin();
  try {
    const body = requests.assessment(state);
    const tellWaiting = (seconds) => { if (asked.isCurrent) byId("status").textContent = `${AS_A_JOB} ${seconds ? `${seconds} s so far.` : ""}`; };
    const response = await postWithJobFallback("/v1/assessments", body, { signal: asked.signal, onProgress: tellWaiting });
    const checked = await claimOf(state, response, asked);
    if (!asked.isCurrent) return;
    clearErrors();
    showMessages(notices);
    answered = { body, response, calibrated: null };
    showAnswer(response, checked, asked, state, act);
    await Promise.all([pictures(answered, asked, state), imported(run, response, asked), compare(state, response, asked)]);
    if (!asked.isCurrent) return;
    settle("state");
    await rest(asked, state, act);
    if (asked.isCurrent) settle("rest");
  } catch (error) {
    if (error.name === "AbortError" || !asked.isCurrent) return;
    failed(error, notices, state, act, asked);
  }
}

function failed(error, notices, state, act, asked) {
  if (error instanceof requests.Unreadable) {
    clearErrors();
    showMessages([...notices, "The pasted text cannot be read. The field to change is marked."]);
    if (isOffered("paste")) showError("paste", { words: error.message });
    noAnswer("Check the pasted text.", () => asked.fail());
    return;
  }
  const words = showProblem(error, notices, state, act);
  noAnswer(words, () => asked.fail());
}

async function claimOf(state, response, asked) {
  const body = requests.claim(state);
  if (!body) return null;
  const found = await ask("/v1/claims", { ...body, threat_model: response.threat_model }, { signal: asked.signal });
  return claimInWords(found, response);
}

function showAnswer(response, checked, asked, state, act) {
  performance.mark("words");
  const isExample = isFresh(state);
  panels.short.put(asked, () => showShort(byId("short"), response, { isExample, checked, copy: () => act.copy("sentence") }));
  panels.answer.put(asked, () => fill(byId("sentences"), sentences(response).map((each) => element("li", {}, each))));
  panels.limit.put(asked, () => showLimit(byId("verdict-body"), response, openField));
  panels.assumptions.put(asked, () => showAssumptions(byId("assumptions"), response, state.attested, act.attest));
  panels.hazards.put(asked, () => showHazards(byId("hazards"), response, openField));
  panels.engine.put(asked, () => { byId("engine").textContent = `privacy-bounds, engine ${response.engine_version}, result ${response.digest}`; });
  for (const each of [panels.calibration, panels.imported]) each.clearIfOld(asked);
  asked.answer();
}

// What was read from a pasted state.
async function imported(run, response, asked) {
  if (run.source !== "paste") return;
  const { format, content } = requests.mechanismOf(run);
  await ignoreFailures((async () => {
    const found = await ask("/v1/imports", { format, content }, { signal: asked.signal });
    panels.imported.put(asked, () => fill(
      byId("imported"),
      element("p", {}, `Recognised as the state of ${LIBRARIES[found.format] ?? "a library"}: ${response.summary.title}.`),
      found.not_carried_over.length > 0 && element("ul", {}, found.not_carried_over.map((each) => element("li", {}, inPlainWords(each)))),
    ));
  })());
}

async function compare(state, response, asked) {
  if (state.runs.length < 2) {
    panels.compare.clear();
    clearOld(asked, COMPARED);
    return;
  }
  const tellInstead = (sentences_) => panels.compare.put(asked, () => fill(byId("comparison"), sentences_.map((each) => element("p", {}, each))));
  const gap = state.runs.find(requests.missing);
  if (claimsNothing(response)) tellInstead(["The runs are not compared, because nothing is proved about the run in the form."]);
  else if (gap) tellInstead([`Fill in ${gap.name} to compare the runs.`]);
  else {
    try {
      const body = requests.comparison(state);
      const compared = await ask("/v1/comparisons", body, { signal: asked.signal });
      panels.compare.put(asked, () => showComparison(byId("comparison"), compared));
      await ignoreFailures(show("/v1/comparisons", body, asked, { host: COMPARED }));
    } catch (error) {
      if (error instanceof requests.Unreadable) tellInstead(["One of the runs to compare cannot be read.", error.message]);
      else if (error instanceof ApiError) tellInstead(comparisonProblem(error, state));
      else throw error;
    }
  }
  clearOld(asked, COMPARED);
}

// What would be otherwise: the least noise, and the numbers around those of the run. The slowest questions, and the last.
async function rest(asked, state, act) {
  const { response } = answered;
  if (claimsNothing(response)) {
    await whatIf(null, null, asked, state);
    return;
  }
  const judged = judgedRun(response);
  answered.calibrated = await calibrate(judged, asked, state, act);
  await whatIf(judged, answered.calibrated, asked, state, isDecidable(response));
}

// The run that the numbers of an answer are of: hazards that are present may change it.
const judgedRun = ({ mechanism, threat_model, judged_as }) => ({ mechanism: judged_as?.mechanism ?? mechanism, threat_model: judged_as?.threat_model ?? threat_model, change: judged_as?.text ?? null });

// Whether numbers decide the limit: no hazard leaves it open, whatever they are.
const isDecidable = ({ decision }) => !decision?.rulings.some((each) => each.verdict === "undecided" && each.reason);

async function calibrate(judged, asked, state, act) {
  const body = isDecidable(answered.response) ? requests.calibration(state, judged) : null;
  if (!body) return null;
  const host = byId("calibration");
  const say = (words) => panels.calibration.put(asked, () => fill(host, element("p", { class: "help" }, words)));
  const waiting = (seconds) => say(`The search for the least noise continues as a job. ${seconds ? `${seconds} s so far.` : ""}`);
  say("Searching for the least noise that keeps the limit …");
  try {
    const response = await postWithJobFallback("/v1/calibrations", body, { signal: asked.signal, onProgress: waiting });
    const take = requests.isTyped(activeRun(state)) && !judged.change ? act.takeNoise : null;
    panels.calibration.put(asked, () => showCalibration(host, response, take, judged.change));
    return response.status === "met" ? response.value : null;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    say(`The least noise that keeps the limit was not found. ${error.message}`);
    return null;
  }
}

// Ask once more what would be if, for another axis.
export async function askWhatIf(state) {
  if (phaseNow() !== "answered" || !answerNow() || claimsNothing(answered.response)) return;
  const asked = ticket();
  clearWhatIf(asked);
  document.documentElement.dataset.rest = "asking";
  await ignoreFailures(whatIf(judgedRun(answered.response), answered.calibrated, asked, state, isDecidable(answered.response)));
  if (asked.isCurrent) settle("rest");
}

// The picture that follows a slider; a newer position gives up the request of the position before.
export async function drag(state) {
  if (!answered || answered.response.judged_as || answered.response.threat_model.records || requests.missing(activeRun(state))) return;
  const asked = ticket();
  try {
    if (state.runs.length > 1) await show("/v1/comparisons", requests.comparison(state), asked, { most: 1, host: COMPARED });
    else await show("/v1/curves", requests.curves(state), asked, { most: 1 });
  } catch (error) {
    const isKnown = error instanceof ApiError || error instanceof requests.Unreadable;  // shown when the slider rests
    if (error.name !== "AbortError" && !isKnown) throw error;
  }
}
