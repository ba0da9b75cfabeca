// Problems in words: beside the fields that cause them, and above the answer.

import { ApiError } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { clearErrors, isOffered, openField, showError } from "./form.js";
import { placeOf, wordsElsewhere, wordsFor } from "./words.js";

// Show sentences above the answer, or nothing where there are none.
export function showMessages(sentences, again = null) {
  const box = byId("problem");
  box.hidden = sentences.length === 0;
  fill(box, sentences.map((each) => element("p", {}, each)), again && element("button", { type: "button", onclick: again }, "Try again"));
}

// Show why there is no answer. take(id, text) puts text into a field; again() asks once more. The reason in a sentence.
export function showProblem(error, notices, state, { take, again }) {
  if (!(error instanceof ApiError)) {
    console.error(error);
    showMessages([...notices, "This page failed to show the answer. Your input is kept."], again);
    return "This page failed to show the answer.";
  }
  clearErrors();
  const elsewhere = new Set();
  const marked = new Map();  // ids of fields, by their labels
  for (const each of error.errors) {
    const run = /^\/runs\/(\d+)/.exec(each.pointer);
    const id = run && Number(run[1]) !== state.active ? null : placeOf(each.pointer).ids.find(isOffered);
    if (id) {
      showError(id, wordsFor(id, byId(id).value, each.detail, each.pointer), take);
      marked.set(labelOf(id), id);
    }
    else elsewhere.add(wordsElsewhere(error.type));
  }
  if (error.status === 422 && !error.errors.length) elsewhere.add(wordsElsewhere(error.type));
  if (error.requestId && error.status >= 500) elsewhere.add(`Report this request id to the operators: ${error.requestId}.`);
  const links = [...marked].map(([label, id]) => [" ", element("button", { type: "button", class: "link", onclick: () => openField(id) }, `Go to “${label}”`)]).flat();
  showMessages([...notices, [error.message, ...links], ...elsewhere], error.status === 422 ? null : again);
  if (error.status === 401 || error.status === 403) byId("key").closest("details").open = true;
  return marked.size ? `Check: ${[...marked.keys()].join(", ")}.` : error.message;
}

const labelOf = (id) => byId(id).getAttribute("aria-label") ?? document.querySelector(`label[for="${id}"]`)?.textContent ?? "";

// Why runs cannot be compared, by the names of the runs.
export function comparisonProblem(error, state) {
  const found = error.errors.map(({ pointer, detail }) => {
    const run = state.runs[Number(/^\/runs\/(\d+)/.exec(pointer)?.[1])];
    const { ids: [id] } = placeOf(pointer);
    return run && id ? `${run.name}, ${labelOf(id)}: ${wordsFor(id, typedIn(run, id), detail, pointer).words}` : wordsElsewhere(error.type);
  });
  return ["The runs could not be compared.", ...(found.length ? [...new Set(found)] : [error.message])];
}

const typedIn = (run, id) => String(run[byId(id).dataset.run] ?? "");
