// The form: shows what the state says, writes into it what is typed, and says beside a field what is wrong with it.

import { byId, element, fill } from "./dom.js";
import { hasLawField, LAW_FIELDS } from "./laws.js";
import { plain, typed } from "./numbers.js";
import { activeRun, anotherRun, MOST_RUNS } from "./state.js";
import { hasOwnDelta, hasSizes, isMean, isRelease, isTyped } from "./requests.js";

const SAMPLERS = {
  poisson: "Every record enters every batch independently. Opacus samples like this after make_private. Most other training code does not.",
  shuffled: "A data loader with shuffle=True does this. The exact answer is not known: an attack gives the lower bound, and a theorem the upper bound.",
  fixed_without_replacement: "Every batch is a fresh random set of one size, as drawn by random.sample. Each record replaces another record.",
  fixed_with_replacement: "Every position of a batch is drawn among all records, as random.choices does. This needs both sizes.",
  noisy_sgd: "Every step shows the mean gradient of a fresh batch of one size, each gradient clipped, with noise on the mean. Each record replaces another record.",
  gaussian: "One query of sensitivity 1, with Gaussian noise of this standard deviation.",
  laplace: "One query of sensitivity 1, with Laplace noise of this scale.",
};
const LIMITS = {
  epsilon: "The largest epsilon that you allow. It decides the verdict.",
  trade_off: "The largest share of members that an attacker may find: 0.05 for 5 %. It decides the verdict.",
  reconstruction: "The largest chance of a reconstruction that you allow: 0.05 for 5 %. It decides the verdict.",
};
// A number of one kind means nothing as a number of another: a new kind clears it.
const CLEARED = { "limit-kind": "limit", "claim-kind": "claim" };
const PARTS = { run: (state) => activeRun(state), context: (state) => state.context, limit: (state) => state.limit };

const fields = () => [...document.querySelectorAll("[data-run], [data-context], [data-limit]")];

function placeOf(field) {
  const part = Object.keys(PARTS).find((name) => name in field.dataset);
  return [part, field.dataset[part]];
}

export function showForm(state) {
  for (const field of fields()) {
    const [part, name] = placeOf(field);
    const value = PARTS[part](state)[name];
    if (field.value !== value) field.value = value;
    if (field instanceof HTMLSelectElement && field.value !== value) {  // a choice that a link made up
      field.selectedIndex = 0;
      PARTS[part](state)[name] = field.value;
    }
  }
  showParts(state);
  showSliders(state);
}

function showParts(state) {
  const run = activeRun(state);
  const mean = isMean(run);
  const holds = {
    typed: isTyped(run),
    ownDelta: hasOwnDelta(run),
    batches: !isRelease(run),
    mean,
    multiplied: !mean,
    sampled: !mean,
    plain: !mean,
    byRate: !mean && run.rateBy === "rate",
    bySizes: mean || run.rateBy === "sizes",
    bySteps: mean || run.lengthBy === "steps",
    byEpochs: !mean && run.lengthBy === "epochs",
    unsized: !hasSizes(run),
    named: state.runs.length > 1,
    grouped: state.context.unit !== "example",
    ...Object.fromEntries(LAW_FIELDS.map((name) => [name, hasLawField(run, name)])),
  };
  for (const part of document.querySelectorAll("[data-when]")) {
    const [name, value] = part.dataset.when.split("=");
    part.hidden = value === undefined ? !holds[name] : run[name] !== value;
  }
  byId("sampling-help").textContent = SAMPLERS[run.sampling] ?? "";
  byId("limit-help").textContent = LIMITS[state.limit.kind] ?? "";
}

const SLIDERS = {
  "noise-slider": { field: "noise", at: (place) => Number((10 ** (place / 100)).toPrecision(3)), place: (value) => Math.log10(value) * 100 },
  "steps-slider": { field: "steps", at: (place) => Number((10 ** (place / 20)).toPrecision(2)), place: (value) => Math.log10(value) * 20 },
};

function showSliders(state) {
  for (const [id, { field, place }] of Object.entries(SLIDERS)) {
    const value = typed(activeRun(state)[field]);
    if (typeof value === "number" && value > 0) byId(id).value = String(Math.round(place(value)));
    byId(id).setAttribute("aria-valuetext", String(activeRun(state)[field]));
  }
}

// Calls changed({dragging}) after every change of the state.
export function listen(getState, changed) {
  byId("form").addEventListener("input", (event) => {
    const state = getState();
    const slider = SLIDERS[event.target.id];
    if (slider) {
      activeRun(state)[slider.field] = plain(slider.at(Number(event.target.value)));
      byId(slider.field).value = activeRun(state)[slider.field];
      event.target.setAttribute("aria-valuetext", activeRun(state)[slider.field]);
      clearError(slider.field);
      changed({ dragging: true });
      return;
    }
    if (!event.target.matches("[data-run], [data-context], [data-limit]")) return;
    const [part, name] = placeOf(event.target);
    PARTS[part](state)[name] = event.target.value;
    clearError(event.target.id);
    if (CLEARED[event.target.id]) type(state, CLEARED[event.target.id], "");
    showParts(state);
    showSliders(state);
    changed({ dragging: false });
  });
  for (const id of Object.keys(SLIDERS)) byId(id).addEventListener("change", () => changed({ dragging: false }));
}

// Put a text into a field, as if it had been typed there.
export function type(state, id, text) {
  const [part, name] = placeOf(byId(id));
  PARTS[part](state)[name] = text;
  byId(id).value = text;
  clearError(id);
}

// The runs as buttons; one of them is in the form.
export function showRuns(state, pick) {
  fill(
    byId("runs"),
    state.runs.map((run, index) =>
      element(
        "span",
        { class: "run" },
        element("button", { type: "button", "aria-pressed": String(index === state.active), onclick: () => pick({ active: index }) }, run.name || `run ${index + 1}`),
        state.runs.length > 1 && element("button", { type: "button", class: "remove", "aria-label": `Remove ${run.name}`, onclick: () => pick({ removed: index }) }, "×"),
      ),
    ),
  );
  byId("add-run").hidden = state.runs.length >= MOST_RUNS;
}

export function changeRuns(state, { active, removed, added }) {
  if (added) {
    state.runs.push(anotherRun(state));
    state.active = state.runs.length - 1;
  } else if (removed !== undefined) {
    state.runs.splice(removed, 1);
    state.active = Math.min(state.active > removed ? state.active - 1 : state.active, state.runs.length - 1);
  } else {
    state.active = active;
  }
}

// What is wrong with a field, beside it, and a button for what was perhaps meant; its part of the form is opened.
export function showError(id, { words, meant }, take) {
  const field = byId(id);
  if (!field || byId(`${id}-error`)) return;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", `${id}-error`);
  const button = meant && element("button", { type: "button", class: "small", onclick: () => take(id, meant) }, `Use ${meant}`);
  (field.closest(".field") ?? field.parentElement).append(element("p", { class: "error", id: `${id}-error`, "aria-live": "polite" }, words, " ", button || null));
  const folded = field.closest("details");
  if (folded) folded.open = true;
}

// To a field of the form, also where it is folded away.
export function openField(id) {
  const field = byId(id);
  const folded = field.closest("details");
  if (folded) folded.open = true;
  field.focus();
}

// Whether a field can be filled in now: it is no part of what is hidden.
export const isOffered = (id) => Boolean(byId(id)) && !byId(id).closest("[hidden]");

function clearError(id) {
  byId(`${id}-error`)?.remove();
  byId(id)?.removeAttribute("aria-invalid");
  byId(id)?.removeAttribute("aria-errormessage");
}

export function clearErrors() {
  for (const each of document.querySelectorAll(".error")) clearError(each.id.replace(/-error$/, ""));
}
