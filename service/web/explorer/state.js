// What was typed, as it was typed, and its form as a link. Nothing here is checked: that is the server's.

export const VERSION = 2;
export const MOST_RUNS = 4;
const LONGEST_LINK = 60_000;

const RUN = {
  name: "run 1", source: "form", sampling: "poisson", noise: "1.0",
  rateBy: "sizes", rate: "0.01", batch: "480", dataset: "48000",
  lengthBy: "epochs", steps: "1000", epochs: "10", paste: "", format: "detect",
  noiseStd: "2.84", clip: "500", coordinates: "650", susceptibility: "",
  statedBy: "epsilon", statedEpsilon: "", statedDelta: "", statedMu: "", statedRho: "", claimKind: "epsilon", claim: "",
  law: "randomized_response", lawEpsilon: "2", lawOptions: "4", lawTrueBit: "0.5", lawFalseBit: "0.25", lawGamma: "0.5", lawScale: "2",
  lawSensitivity: "1", lawSigma: "5", lawVariance: "100", lawThreshold: "0.5", lawQuery: "0.5", lawPositives: "1", lawReports: "10000",
  lawMu: "1", lawMean: "10", lawOrders: "2, 4, 8, 16, 32", lawBounds: "0.25, 0.5, 1, 2, 4", lawTimes: "1",
};
// What a run of a link says by leaving it out, by version of the link.
const OMITTED = { 1: { rateBy: "rate", lengthBy: "steps" } };
const CONTEXT = {
  delta: "1e-5", fpr: "0.001", kappa: "0.001", prior: "0.5", dataset: "", unit: "example", records: "",
  microbatch: "", accumulation: "", tuning: "", released: "all_checkpoints",
  dimension: "", direction: "common_to_all_steps", epsilonPmp: "", deltaPmp: "",
  subject: "", version: "", date: "", preparedBy: "",
};
const LIMIT = { kind: "epsilon", value: "", requires: "" };
const CODE = /^[a-z_]{1,64}$/;

export const freshState = () => ({ runs: [{ ...RUN }], active: 0, context: { ...CONTEXT }, limit: { ...LIMIT }, attested: {} });

// Whether nothing was typed yet: what the page shows then is an example.
export const isFresh = (state) => JSON.stringify(state) === JSON.stringify(freshState());

export const activeRun = (state) => state.runs[state.active];

export function anotherRun(state) {
  const taken = new Set(state.runs.map((run) => run.name));
  let number = state.runs.length + 1;
  while (taken.has(`run ${number}`)) number += 1;
  return { ...activeRun(state), name: `run ${number}` };
}

// The fragment of a link: its version, then what differs from a fresh page.
export function linkOf(state) {
  const told = {
    runs: state.runs.map((run) => differing(run, RUN)),
    active: state.active,
    context: differing(state.context, CONTEXT),
    limit: differing(state.limit, LIMIT),
    attested: state.attested,
  };
  const text = `#${VERSION}:${encodeURIComponent(JSON.stringify(told))}`;
  return text.length > LONGEST_LINK ? null : text;
}

// What a link says: {state, notices}. Of a link that cannot be read as a whole, what can be read.
export function readLink(fragment) {
  if (!fragment || fragment === "#") return { state: freshState(), notices: [] };
  const found = /^#(\d{1,6}):(.*)$/s.exec(fragment);
  if (!found) return { state: freshState(), notices: ["The part of this address after # is not a link of this page. The page starts with an empty form."] };
  const notices = [];
  const version = Number(found[1]);
  if (version !== VERSION) {
    const age = version < VERSION ? "an older" : "a newer";
    notices.push(`This link was made by ${age} version of the page (${version}, this is ${VERSION}). The known fields were filled in. Check the form.`);
  }
  let told;
  try {
    told = JSON.parse(decodeURIComponent(found[2]));
  } catch {
    notices.push("The link is damaged or incomplete. The page starts with an empty form.");
    return { state: freshState(), notices };
  }
  return { state: stateOf(told, version), notices };
}

const differing = (given, usual) => Object.fromEntries(Object.entries(given).filter(([name, value]) => usual[name] !== value));

// Texts of known names alone: a link is written by anybody.
function texts(told, usual) {
  const given = told && typeof told === "object" ? told : {};
  const known = Object.keys(usual).map((name) => {
    const value = Object.hasOwn(given, name) ? given[name] : usual[name];
    return [name, typeof value === "string" || typeof value === "number" ? String(value) : usual[name]];
  });
  return Object.fromEntries(known);
}

// The state that a link or the history of the browser has: names that are known, texts alone.
export function stateOf(told, version = VERSION) {
  const state = freshState();
  if (!told || typeof told !== "object") return state;
  if (Array.isArray(told.runs) && told.runs.length) state.runs = told.runs.slice(0, MOST_RUNS).map((run) => texts(run, { ...RUN, ...OMITTED[version] }));
  state.active = Number.isInteger(told.active) && state.runs[told.active] ? told.active : 0;
  state.context = texts(told.context, CONTEXT);
  state.limit = texts(told.limit, LIMIT);
  for (const [code, each] of Object.entries(told.attested && typeof told.attested === "object" ? told.attested : {})) {
    if (CODE.test(code) && each && ["yes", "no"].includes(each.holds)) {
      state.attested[code] = { holds: each.holds, by: typeof each.by === "string" ? each.by : "" };
    }
  }
  return state;
}
