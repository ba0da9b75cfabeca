// The page: what is typed becomes requests, answers become words and pictures.

import "./trusted.js";
import { setKey } from "./api.js";
import { answerNow, askAll, askWhatIf, drag } from "./asking.js";
import { forgetCopies, take } from "./copies.js";
import { byId } from "./dom.js";
import { changeRuns, clearErrors, listen, showForm, showRuns, type } from "./form.js";
import { showGlossary } from "./panels.js";
import { edit } from "./phase.js";
import { isMean } from "./requests.js";
import { activeRun, freshState, linkOf, readLink, stateOf } from "./state.js";

const QUIET_MS = 350;  // after the last key, until all is asked
const DRAG_MS = 30;  // the same, for the picture under a slider

let state = freshState();
let timer = null;
let dragTimer = null;

// What can be done from within an answer.
const act = {
  again: () => answer(),
  copy: (kind) => { if (kind === "link" || answerNow()) take(kind, answerNow(), state); },
  take: (id, text) => changeAndAsk(() => type(state, id, text)),
  takeNoise: (value) => changeAndAsk(() => { activeRun(state)[isMean(activeRun(state)) ? "noiseStd" : "noise"] = value; }),
  attest: (code, said) => changeAndAsk(() => {
    if (said) state.attested[code] = said;
    else delete state.attested[code];
  }),
};

function start() {
  const kept = history.state?.typed;
  const { state: linked, notices } = readLink(location.hash);
  state = !location.hash && kept ? stateOf(kept) : linked;
  showGlossary(byId("glossary"));
  showAll();
  listen(() => state, changed);
  byId("form").addEventListener("submit", (event) => { event.preventDefault(); answer(); });
  byId("add-run").addEventListener("click", () => changeAndAsk(() => changeRuns(state, { added: true })));
  byId("reset").addEventListener("click", () => changeAndAsk(() => { state = freshState(); }));
  byId("key").addEventListener("change", () => { setKey(byId("key").value); answer(); });
  byId("results").addEventListener("click", (event) => { if (event.target.dataset.copy) act.copy(event.target.dataset.copy); });
  byId("what-if").addEventListener("change", () => askWhatIf(state));
  document.addEventListener("click", within);
  addEventListener("hashchange", () => {
    const read = readLink(location.hash);
    changeAndAsk(() => { state = read.state; }, read.notices);
  });
  new ResizeObserver(() => document.documentElement.style.setProperty("--strip", `${byId("strip").offsetHeight}px`)).observe(byId("strip"));
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
  showRuns(state, pickRun);
}

const pickRun = (change) => changeAndAsk(() => changeRuns(state, change));

// Every key that is typed makes what stands on the page old; all is asked when nothing was typed for a while.
function changed({ dragging }) {
  edit();
  forgetCopies();
  showRuns(state, pickRun);
  clearTimeout(timer);
  timer = setTimeout(answer, QUIET_MS);
  if (dragging) {
    clearTimeout(dragTimer);
    dragTimer = setTimeout(() => drag(state), DRAG_MS);
  }
}

function changeAndAsk(change, notices) {
  change();
  edit();
  forgetCopies();
  showAll();
  answer(notices);
}

function answer(notices = []) {
  clearTimeout(timer);
  clearTimeout(dragTimer);
  const link = linkOf(state);
  history.replaceState({ typed: state }, "", link ?? location.pathname);
  return askAll(state, act, notices);
}

start();
