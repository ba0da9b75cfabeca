// From what was typed to bodies of requests, and from places in these back to the fields of the form.

import { typed } from "./numbers.js";
import { activeRun } from "./state.js";

// Raised for a pasted text that is no JSON: nothing is sent.
export class NotJson extends Error {}

const RELEASES = { gaussian: "gaussian", laplace: "laplace" };

export function mechanismOf(run) {
  if (run.source === "paste") return { type: "imported", format: run.format, content: pasted(run.paste) };
  if (run.sampling in RELEASES) return { type: RELEASES[run.sampling], noise_multiplier: typed(run.noise) };
  if (isMean(run)) return meanGradients(run);
  const mechanism = { type: "dpsgd", noise_multiplier: typed(run.noise) };
  if (run.sampling !== "poisson") mechanism.sampling = run.sampling;
  if (run.rateBy === "sizes") Object.assign(mechanism, { batch_size: typed(run.batch), dataset_size: typed(run.dataset) });
  else mechanism.sample_rate = typed(run.rate);
  if (run.lengthBy === "epochs") mechanism.epochs = typed(run.epochs);
  else mechanism.steps = typed(run.steps);
  return mechanism;
}

function meanGradients(run) {
  return without({
    type: "noisy_sgd", dataset_size: typed(run.dataset), batch_size: typed(run.batch), dimension: typed(run.coordinates), steps: typed(run.steps),
    noise_std: typed(run.noiseStd), max_grad_norm: typed(run.clip), susceptibility: typed(run.susceptibility),
  });
}

export const isMean = (run) => run.source === "form" && run.sampling === "noisy_sgd";
export const isRelease = (run) => run.source === "form" && run.sampling in RELEASES;
export const hasSizes = (run) => run.source === "form" && !isRelease(run) && (run.rateBy === "sizes" || isMean(run));

function pasted(text) {
  if (text.trim() === "") throw new NotJson("Nothing was pasted yet: paste the state of an accountant as JSON, or type the numbers of the run.");
  let content;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw new NotJson(`${whyNotJson(text)} What was found: ${error.message}.`);
  }
  if (content === null || typeof content !== "object") throw new NotJson("This is JSON, but neither an object nor a list, so it cannot be the state of an accountant.");
  return content;
}

function whyNotJson(text) {
  if (/\bTrue\b|\bFalse\b|\bNone\b|^\s*[{[][^"]*'|\(/.test(text)) return "This looks like Python, not JSON. Print it with json.dumps(...), which writes brackets and double quotes.";
  if (/^\s*</.test(text)) return "This looks like HTML or XML, not JSON.";
  if (/^\s*[\w.]+\s*[:=]/.test(text)) return "This looks like YAML or settings, not JSON.";
  return "This is not JSON.";
}

export function limitOf(state) {
  const at_most = typed(state.limit.value);
  if (at_most === undefined) return null;
  return { question: questions(state)[state.limit.kind], at_most };
}

export function questions(state) {
  const { delta, fpr, kappa } = state.context;
  return {
    epsilon: { type: "epsilon", delta: typed(delta) },
    trade_off: { type: "trade_off", false_positive_rates: [typed(fpr)] },
    reconstruction: { type: "reconstruction", baseline_success: typed(kappa) },
  };
}

export function assessment(state, run = activeRun(state)) {
  const given = state.context;
  const context = {
    delta: typed(given.delta),
    false_positive_rate: typed(given.fpr),
    baseline_success: typed(given.kappa),
    prior: typed(given.prior),
    dataset_size: hasSizes(run) ? undefined : typed(given.dataset),
    microbatch_size: typed(given.microbatch),
    gradient_accumulation_steps: typed(given.accumulation),
    tuning_runs: typed(given.tuning),
    dimension: isMean(run) ? undefined : typed(given.dimension),
    epsilon_pmp: typed(given.epsilonPmp),
    delta_pmp: typed(given.deltaPmp),
  };
  if (context.dimension !== undefined && given.direction !== "common_to_all_steps") context.unknown_direction = given.direction;
  if (given.unit !== "example") Object.assign(context, { privacy_unit: given.unit, records: typed(given.records) });
  if (given.released !== "all_checkpoints") context.released = given.released;
  const attested = Object.entries(state.attested).map(([code, each]) => ({ code, holds: each.holds, ...(each.by ? { by: each.by } : {}) }));
  if (attested.length) context.attested = attested;
  const body = { mechanism: mechanismOf(run), context: without(context) };
  const limit = limitOf(state);
  if (limit) body.policy = { name: "Limit of the page", rules: [limit] };
  return body;
}

// The name of the one number for the noise of a run, as the server read it; it may be searched for and varied.
export const noiseOf = (mechanism) => ["noise_multiplier", "noise_std"].find((name) => typeof mechanism[name] === "number" && mechanism[name] > 0);

export function calibration(state, mechanism) {
  const limit = limitOf(state);
  const noise = noiseOf(mechanism);
  return limit && noise ? { mechanism, free: `/mechanism/${noise}`, targets: [limit] } : null;
}

const POINTS = 13;
const AROUND = { noise: [0.5, 4], length: [0.1, 10] };  // of the number of the run

// The three numbers of a run, against its noise or its length; null where the run has no such number.
export function sweep(state, mechanism, axis) {
  const name = axis === "noise" ? noiseOf(mechanism) : typeof mechanism.epochs === "number" ? "epochs" : "steps";
  const now = mechanism[name];
  if (typeof now !== "number") return null;
  const [least, most] = AROUND[axis].map((factor) => now * factor);
  const whole = name === "steps";
  const range = { from: whole ? Math.max(1, Math.round(least)) : least, to: whole ? Math.round(most) : most, count: POINTS, spacing: "log" };
  return { mechanism, vary: { [`/mechanism/${name}`]: range }, questions: Object.values(questions(state)) };
}

export function curves(state, run = activeRun(state)) {
  return { mechanism: mechanismOf(run), grid: { count: 48, smallest: 1e-6, largest: 0.999 } };
}

export function comparison(state) {
  return { runs: state.runs.map((run) => ({ name: run.name, mechanism: mechanismOf(run) })), questions: Object.values(questions(state)) };
}

const without = (body) => Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));

const FIELDS = [
  [/^\/runs\/\d+\/name/, "name"],
  [/(^|\/)mechanism\/(content|format)/, "paste"],
  [/(^|\/)mechanism\/noise_multiplier/, "noise"],
  [/(^|\/)mechanism\/sampling/, "sampling"],
  [/(^|\/)mechanism\/sample_rate/, "rate"],
  [/(^|\/)mechanism\/batch_size/, "batch"],
  [/(^|\/)mechanism\/dataset_size/, "dataset"],
  [/(^|\/)mechanism\/steps/, "steps"],
  [/(^|\/)mechanism\/epochs/, "epochs"],
  [/(^|\/)mechanism\/noise_std/, "noise-std"],
  [/(^|\/)mechanism\/max_grad_norm/, "clip"],
  [/(^|\/)mechanism\/dimension/, "coordinates"],
  [/(^|\/)mechanism\/susceptibility/, "susceptibility"],
  [/^\/content/, "paste"],
  [/^\/context\/delta|question(s\/\d+)?\/delta/, "delta"],
  [/^\/context\/false_positive_rate|\/false_positive_rates/, "fpr"],
  [/^\/context\/baseline_success|\/baseline_success/, "kappa"],
  [/^\/context\/prior/, "prior"],
  [/^\/context\/dataset_size/, "records-in-data"],
  [/^\/context\/privacy_unit/, "unit"],
  [/^\/context\/records/, "records"],
  [/^\/context\/microbatch_size/, "microbatch"],
  [/^\/context\/gradient_accumulation_steps/, "accumulation"],
  [/^\/context\/tuning_runs/, "tuning"],
  [/^\/context\/dimension/, "dimension"],
  [/^\/context\/unknown_direction/, "direction"],
  [/^\/context\/epsilon_pmp/, "epsilon-pmp"],
  [/^\/context\/delta_pmp/, "delta-pmp"],
  [/at_most|at_least/, "limit"],
];

// The id of the field that a JSON pointer of a refusal is about; null where there is none.
export function fieldOf(pointer) {
  const found = FIELDS.find(([pattern]) => pattern.test(pointer));
  return found ? found[1] : null;
}
