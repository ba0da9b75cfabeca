// From what was typed to the bodies of requests.

import { lawOf } from "./laws.js";
import { typed, typedWhole } from "./numbers.js";
import { activeRun } from "./state.js";

// Raised for a pasted text that cannot be read: nothing is sent.
export class Unreadable extends Error {}

const RELEASES = new Set(["gaussian", "laplace"]);
const TYPED = new Set(["form", "claim"]);

export const isTyped = (run) => TYPED.has(run.source);
export const isMean = (run) => isTyped(run) && run.sampling === "noisy_sgd";
export const isRelease = (run) => isTyped(run) && RELEASES.has(run.sampling);
export const hasSizes = (run) => isTyped(run) && !isRelease(run) && (run.rateBy === "sizes" || isMean(run));
const statesEpsilon = (run) => run.source === "epsilon" && run.statedBy === "epsilon";
export const hasOwnDelta = (run) => !statesEpsilon(run);

// The id of the field that has to be filled in before there is anything to ask; null where there is enough.
export function missing(run) {
  if (run.source === "paste" && run.paste.trim() === "") return "paste";
  if (statesEpsilon(run) && run.statedEpsilon.trim() === "") return "stated-epsilon";
  if (run.source === "epsilon" && run.statedBy === "mu" && run.statedMu.trim() === "") return "stated-mu";
  if (run.source === "epsilon" && run.statedBy === "rho" && run.statedRho.trim() === "") return "stated-rho";
  if (run.source === "claim" && run.claim.trim() === "") return "claim";
  return null;
}

export function mechanismOf(run) {
  if (run.source === "paste") return { type: "imported", format: run.format, content: pasted(run.paste) };
  if (run.source === "epsilon") return stated(run);
  if (run.source === "law") return lawOf(run);
  if (isRelease(run)) return without({ type: run.sampling, noise_multiplier: typed(run.noise) });
  if (isMean(run)) return meanGradients(run);
  const mechanism = { type: "dpsgd", noise_multiplier: typed(run.noise) };
  if (run.sampling !== "poisson") mechanism.sampling = run.sampling;
  if (run.rateBy === "sizes") Object.assign(mechanism, { batch_size: typedWhole(run.batch), dataset_size: typedWhole(run.dataset) });
  else mechanism.sample_rate = typed(run.rate);
  if (run.lengthBy === "epochs") mechanism.epochs = typed(run.epochs);
  else mechanism.steps = typedWhole(run.steps);
  return without(mechanism);
}

function stated(run) {
  if (run.statedBy === "mu") return { type: "gdp", mu: typed(run.statedMu) };
  if (run.statedBy === "rho") return { type: "zcdp", rho: typed(run.statedRho) };
  const epsilon = typed(run.statedEpsilon);
  const delta = typed(run.statedDelta);
  return delta === undefined || delta === 0 ? { type: "pure_dp", epsilon } : { type: "approximate_dp", epsilon, delta };
}

function meanGradients(run) {
  return without({
    type: "noisy_sgd", dataset_size: typedWhole(run.dataset), batch_size: typedWhole(run.batch), dimension: typedWhole(run.coordinates), steps: typedWhole(run.steps),
    noise_std: typed(run.noiseStd), max_grad_norm: typed(run.clip), susceptibility: typed(run.susceptibility),
  });
}

function pasted(text) {
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new Unreadable(whyUnreadable(text));
  }
  if (content === null || typeof content !== "object") throw new Unreadable("This is a single value, not the state of a library. Paste the whole output of json.dumps(...).");
  return content;
}

function whyUnreadable(text) {
  if (/\bTrue\b|\bFalse\b|\bNone\b|^\s*[{[][^"]*'|\(/.test(text)) return "This looks like Python. Print it with json.dumps(...), and paste the output.";
  if (/^\s*</.test(text)) return "This looks like HTML or XML. Paste the output of json.dumps(...).";
  if (/^\s*[\w.]+\s*[:=]/.test(text)) return "This looks like YAML or settings. Paste the output of json.dumps(...).";
  return "This text is incomplete or damaged. Paste the whole output of json.dumps(...), from the first bracket to the last.";
}

// The delta at which epsilon is asked: an epsilon that was stated is asked at its own delta.
function deltaOf(state, run = activeRun(state)) {
  return statesEpsilon(run) ? typed(run.statedDelta) ?? 0 : typed(state.context.delta);
}

export function limitOf(state) {
  const at_most = typed(state.limit.value);
  if (at_most === undefined) return null;
  return { question: questions(state)[state.limit.kind], at_most };
}

export function questions(state) {
  const { fpr, kappa } = state.context;
  return {
    epsilon: { type: "epsilon", delta: deltaOf(state) },
    trade_off: { type: "trade_off", false_positive_rates: [typed(fpr)] },
    reconstruction: { type: "reconstruction", baseline_success: typed(kappa) },
  };
}

export function assessment(state, run = activeRun(state)) {
  const body = { mechanism: mechanismOf(run), context: contextOf(state, run) };
  const limit = limitOf(state);
  if (limit) body.policy = { name: "Our limit", rules: [limit], ...(state.limit.requires === "all" ? { requires: "all" } : {}) };
  return body;
}

function contextOf(state, run) {
  const given = state.context;
  const context = without({
    delta: deltaOf(state, run),
    false_positive_rate: typed(given.fpr),
    baseline_success: typed(given.kappa),
    prior: typed(given.prior),
    dataset_size: hasSizes(run) ? undefined : typedWhole(given.dataset),
    microbatch_size: typedWhole(given.microbatch),
    gradient_accumulation_steps: typedWhole(given.accumulation),
    tuning_runs: typedWhole(given.tuning),
    dimension: isMean(run) ? undefined : typedWhole(given.dimension),
    epsilon_pmp: typed(given.epsilonPmp),
    delta_pmp: typed(given.deltaPmp),
    date: text(given.date),
    prepared_by: text(given.preparedBy),
  });
  if (context.dimension !== undefined && given.direction !== "common_to_all_steps") context.unknown_direction = given.direction;
  if (given.unit !== "example") Object.assign(context, without({ privacy_unit: given.unit, records: typedWhole(given.records) }));
  if (given.released !== "all_checkpoints") context.released = given.released;
  const subject = without({ name: text(given.subject), version: text(given.version) });
  if (Object.keys(subject).length) context.subject = subject;
  const attested = Object.entries(state.attested).map(([code, each]) => ({ code, holds: each.holds, ...(each.by ? { by: each.by } : {}) }));
  if (attested.length) context.attested = attested;
  return context;
}

const text = (given) => (given.trim() === "" ? undefined : given.trim());

// What is claimed about the run, or null without a claim.
export function claim(state, run = activeRun(state)) {
  const value = typed(run.claim);
  if (run.source !== "claim" || value === undefined) return null;
  return { mechanism: mechanismOf(run), claims: [{ question: questions(state)[run.claimKind], value }] };
}

// The name of the one number for the noise of a run, as the server read it; it may be searched for and varied.
const noiseOf = (mechanism) => ["noise_multiplier", "noise_std"].find((name) => typeof mechanism[name] === "number" && mechanism[name] > 0);

export function calibration(state, { mechanism, threat_model }) {
  const limit = limitOf(state);
  const noise = noiseOf(mechanism);
  return limit && noise ? { mechanism, threat_model, free: `/mechanism/${noise}`, targets: [limit] } : null;
}

const POINTS = 13;
const AROUND = { noise: [0.5, 4], length: [0.1, 10] };  // of the number of the run

// The three numbers of a run, against its noise or its length; null where the run has no such number.
export function sweep(state, { mechanism, threat_model }, axis) {
  const name = axis === "noise" ? noiseOf(mechanism) : typeof mechanism.epochs === "number" ? "epochs" : "steps";
  const now = mechanism[name];
  if (typeof now !== "number") return null;
  const [least, most] = AROUND[axis].map((factor) => now * factor);
  const whole = name === "steps";
  const range = { from: whole ? Math.max(1, Math.round(least)) : least, to: whole ? Math.round(most) : most, count: POINTS, spacing: "log" };
  return { mechanism, threat_model, vary: { [`/mechanism/${name}`]: range }, questions: Object.values(questions(state)) };
}

export function curves(state, run = activeRun(state)) {
  return { mechanism: mechanismOf(run), grid: { count: 48, smallest: 1e-6, largest: 0.999 } };
}

export function comparison(state) {
  return { runs: state.runs.map((run) => ({ name: run.name, mechanism: mechanismOf(run) })), questions: Object.values(questions(state)) };
}

const without = (body) => Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
