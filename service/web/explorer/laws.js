// Mechanisms that are no training run: the fields of the form that each has, and what they say in a request.

import { typed, typedWhole } from "./numbers.js";

// Names in a request, by fields of the form.
const NAMES = {
  lawEpsilon: "epsilon", lawOptions: "options", lawTrueBit: "true_bit", lawFalseBit: "false_bit", lawGamma: "gamma", lawScale: "scale",
  lawSensitivity: "sensitivity", lawSigma: "sigma", lawVariance: "variance", lawThreshold: "threshold_epsilon", lawQuery: "query_epsilon",
  lawPositives: "positives", lawReports: "reports", lawMu: "mu", lawMean: "mean", lawOrders: "orders", lawBounds: "epsilons",
};
const WHOLE = new Set(["lawOptions", "lawPositives", "lawReports"]);
const LISTS = new Set(["lawOrders", "lawBounds"]);
const NOISY_MAX = ["lawScale", "lawSensitivity"];

// By the choice in the form: its fields, and the mechanism of what they say (absent: the choice is its type).
const LAWS = {
  randomized_response: { fields: ["lawEpsilon", "lawOptions"] },
  unary_encoding: { fields: ["lawTrueBit", "lawFalseBit"] },
  shuffled_responses: { fields: ["lawReports", "lawEpsilon", "lawOptions"], of: (said) => shuffled(said, "randomized_response") },
  shuffled_any: { fields: ["lawReports", "lawEpsilon"], of: (said) => shuffled(said, "pure_dp") },
  discrete_gaussian: { fields: ["lawSigma", "lawSensitivity"] },
  discrete_laplace: { fields: ["lawScale", "lawSensitivity"] },
  skellam: { fields: ["lawVariance", "lawSensitivity"] },
  staircase: { fields: ["lawEpsilon", "lawGamma"] },
  gumbel: { fields: NOISY_MAX, of: (said) => ({ type: "report_noisy_max", noise: "gumbel", ...said }) },
  exponential: { fields: NOISY_MAX, of: (said) => ({ type: "report_noisy_max", noise: "exponential", ...said }) },
  laplace: { fields: NOISY_MAX, of: (said) => ({ type: "report_noisy_max", noise: "laplace", ...said }) },
  permute_and_flip: { fields: ["lawEpsilon"] },
  sparse_vector: { fields: ["lawThreshold", "lawQuery", "lawPositives"] },
  rdp: { fields: ["lawOrders", "lawBounds"] },
  selected: { fields: ["lawMu", "lawMean"], once: true, of: best },
};

export const LAW_FIELDS = [...Object.keys(NAMES), "lawTimes"];

// Whether a field of the form belongs to the mechanism that is chosen.
export function hasLawField(run, name) {
  const law = LAWS[run.law];
  return run.source === "law" && Boolean(law) && (name === "lawTimes" ? !law.once : law.fields.includes(name));
}

export function lawOf(run) {
  const { fields, of, once } = LAWS[run.law];
  const said = Object.fromEntries(fields.map((name) => [NAMES[name], valueOf(name, run[name])]).filter(([, value]) => value !== undefined));
  const mechanism = of ? of(said) : { type: run.law, ...said };
  const steps = typedWhole(run.lawTimes);
  return once || steps === 1 ? mechanism : { type: "repeated", mechanism, ...(steps === undefined ? {} : { steps }) };
}

function valueOf(name, text) {
  if (LISTS.has(name)) return text.split(/[\s,;]+/).filter((each) => each !== "").map(typed);
  return WHOLE.has(name) ? typedWhole(text) : typed(text);
}

function shuffled({ reports, ...said }, type) {
  return { type: "shuffled_reports", ...(reports === undefined ? {} : { reports }), randomizer: { type, ...said } };
}

function best({ mean, ...one }) {
  return { type: "selected", mechanism: { type: "gdp", ...one }, trials: { type: "geometric", ...(mean === undefined ? {} : { mean }) }, released: "best" };
}
