// The sentences about a run. Their numbers are those of the server, rounded to the safe side.

import { element } from "./dom.js";
import { givenPercent, INFINITE, percent, plain, rounded } from "./numbers.js";
import { inPlainWords } from "./plain_words.js";

const strong = (text) => element("strong", {}, text);
const term = (text, title) => element("abbr", { title, tabindex: "0" }, text);
const EPSILON = "Epsilon and delta: whatever an attacker sees becomes at most e to the power of epsilon times more likely by one record, but for a chance of delta.";

// Whether nothing is claimed about the run: an assumption does not hold, or a hazard leaves no bound.
export const claimsNothing = (response) => !response.summary.bounded;

export function sentences(response) {
  if (claimsNothing(response)) return [[response.summary.sentence]];
  const answers = Object.fromEntries(response.threat_models[0].answers.map((answer) => [answer.type, answer]));
  const { context } = response;
  const unit = protectedBy(response);
  return [
    promised(answers.epsilon.value, context.delta, unit),
    [response.summary.sentence, ` Blind guesses identify ${givenPercent(context.false_positive_rate)}.`],
    [`A ${unit} that would be guessed with a chance of ${givenPercent(context.baseline_success)} without the model is reconstructed with at most `,
      strong(percent(answers.reconstruction.value)), " with it."],
    [`If ${givenPercent(context.prior)} of the candidates were in the data, the best attacker is right about at most `,
      strong(percent(answers.attack_accuracy.value)), " of them."],
    grounds(response, Object.values(answers)),
    ...wide(Object.values(answers)),
    ...(response.judged_as ? [[inPlainWords(response.judged_as.text)]] : []),
  ];
}

// What the numbers protect: a unit, with its records where it has several, or one record where nothing caps them.
function protectedBy({ context, hazards, judged_as, threat_model }) {
  const unit = context.privacy_unit === "example" ? "record" : context.privacy_unit;
  if (hazards.some((each) => each.code === "records_not_capped" && each.status === "present")) return `record of one ${unit}`;
  const records = (judged_as?.threat_model ?? threat_model).records ?? context.records ?? 1;
  return records > 1 ? `${unit} with up to ${records} records` : unit;
}

function promised(epsilon, delta, unit) {
  if (epsilon === INFINITE) return [`No finite epsilon holds for this run at a delta of ${plain(delta)}.`];
  if (delta >= 1) return ["A delta of 1 guarantees nothing, for every epsilon."];
  const numbers = delta === 0 ? rounded(epsilon) : `(${rounded(epsilon)}, ${plain(delta)})`;
  return ["The run is ", term(`${numbers}-differentially private`, EPSILON), ` for each ${unit}.`];
}

// Why numbers are wider than asked for, and what helps.
function wide(answers) {
  const advice = new Set(answers.filter((answer) => answer.limit).map((answer) => answer.limit.advice));
  return [...advice].map((each) => [`A number is less precise than usual. ${each}`]);
}

const PROVED = new Set(["exact", "certified", "proved"]);

function grounds(response, answers) {
  const open = response.assumptions.filter((each) => each.holds === "unknown").length;
  const total = response.assumptions.length;
  const proved = answers.every((answer) => PROVED.has(answer.evidence));
  const bracket = answers.some((answer) => answer.tight === false);
  const how = proved ? "These numbers are proved" : "Not all of these numbers are proved";
  const width = bracket ? ", but attacks may not attain them" : "";
  if (!total) return [`${how}${width}.`];
  if (!open) return [`${how}${width}, and all ${total} assumptions behind them are attested.`];
  const on = total === 1 ? "1 assumption, which is not attested yet" : `${total} assumptions, of which ${open} ${open === 1 ? "is" : "are"} not attested yet`;
  return [`${how}${width}. They rest on ${on}: see `,
    element("a", { href: "#assumptions-title", class: "inside" }, "the assumptions"), "."];
}
