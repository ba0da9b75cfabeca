// The verdict: the short answer that is always in view, the limit in full, a claim that was checked, the least noise.

import { element, fill } from "./dom.js";
import { givenPercent, percent, rounded, whole } from "./numbers.js";
import { inPlainWords } from "./plain_words.js";
import { claimsNothing } from "./sentences.js";

// By verdict: its look and its symbol. A verdict that is not known here is not kept.
const LOOKS = { met: ["good", "✓"], met_if_attested: ["pending", "○"], violated: ["bad", "✗"], undecided: ["open", "?"], void: ["bad", "⊘"] };
const UNKNOWN = ["open", "?"];

const said = (kind, symbol, sentence) =>
  element("p", { class: `verdict ${kind}` }, element("span", { class: "symbol", "aria-hidden": "true" }, symbol), ` ${sentence}`);

// The answer in short. `checked`: what a claim was found to be, as {kind, symbol, sentence}; null without a claim.
export function showShort(host, response, { isExample, checked, copy }) {
  const { summary, decision } = response;
  const [kind, symbol] = decision ? LOOKS[decision.verdict] ?? UNKNOWN : [];
  const sentence = element("p", { class: decision || checked ? "aside-sentence" : "main-sentence" }, summary.sentence, " ",
    element("button", { type: "button", class: "small", "data-copy": "sentence", "data-current-only": true, "aria-label": "Copy this sentence", onclick: copy }, "Copy"));
  fill(
    host,
    element("h2", {}, isExample && [element("span", { class: "tag" }, "Example"), " "], inPlainWords(summary.title)),
    checked && said(checked.kind, checked.symbol, checked.sentence),
    decision && said(kind, symbol, inPlainWords(decision.sentence)),
    sentence,
    !decision && element("p", { class: "help" }, isExample ? "This is an example: enter the numbers of your run. No limit was set, so there is no verdict." : "No limit was set, so there is no verdict."),
  );
}

const NUMBERS = { epsilon: "epsilon", trade_off: "the share of members found", reconstruction: "the chance of a reconstruction" };
const CLAIMS = {
  unsafe: ["bad", "✗", (name, claimed, truth) => `The claim is unsafe: it says at most ${claimed}, and ${name} is proved to be at least ${truth.lower}.`],
  loose: ["good", "✓", (name, claimed, truth) => `The claim holds, and is loose: it says at most ${claimed}, and ${name} is proved to be at most ${truth.upper}.`],
  consistent: ["good", "✓", (name, claimed, truth) => `The claim agrees with what is proved: it says at most ${claimed}, and ${name} is proved to be at most ${truth.upper}.`],
  undecided: ["open", "?", (name, claimed) => `The claim that ${name} is at most ${claimed} is undecided: the bounds of this run neither prove nor refute it.`],
};
const PROVING = new Set(["loose", "consistent"]);

// Whether a hazard that is present keeps a number of the run as described from proving anything.
const isOpen = (response) => Boolean(response.judged_as) || response.hazards.some((each) => each.status === "present" && each.effect === "limits_undecided");

// What a proof rests on that nobody vouches for, as a sentence; "" where there is nothing.
function resting(response) {
  const open = response.assumptions.filter((each) => each.holds === "unknown").length;
  return open ? ` This rests on ${open} ${open === 1 ? "assumption" : "assumptions"} that ${open === 1 ? "is" : "are"} not attested.` : "";
}

// A claim that was checked, in a sentence: {kind, symbol, sentence}. Rounded so that the sentence stays true.
export function claimInWords({ claims: [checked] }, response) {
  const { type, points } = checked.answer;
  const of = points ? points[0].power : checked.answer;
  const inShares = type !== "epsilon";
  const write = (value, options) => (inShares ? percent(value, options) : rounded(value, options));
  const claimed = inShares ? givenPercent(checked.claimed) : whole(checked.claimed);
  const truth = { lower: write(of.lower, { digits: 4, down: true }), upper: write(of.upper, { digits: 4 }) };
  if (claimsNothing(response)) return { kind: "bad", symbol: "⊘", sentence: "The claim was not checked, because the assumptions of the run do not hold." };
  const known = isOpen(response) && checked.verdict !== "unsafe" ? null : CLAIMS[checked.verdict];
  const [kind, symbol, words] = known ?? CLAIMS.undecided;
  const grounds = known && PROVING.has(checked.verdict) ? resting(response) : "";
  return { kind, symbol, sentence: `${words(NUMBERS[type], claimed, truth)}${grounds}` };
}

// The limit, one ruling at a time, and the assumptions that somebody has to vouch for first. show(id) leads to a control.
export function showLimit(host, response, show) {
  const { decision } = response;
  if (!decision) {
    fill(host, element("p", {}, "No limit was set. Set a limit under Our limit for a verdict."));
    return;
  }
  const texts = Object.fromEntries(response.assumptions.map((each) => [each.code, each.text]));
  fill(
    host,
    decision.rulings.map((each) => [element("p", {}, `Limit: ${inPlainWords(each.meaning)}`), claimsNothing(response) ? element("p", {}, "The limit is not decided.") : reached(each)]).flat(),
    decision.missing.length > 0 && element("p", {}, "These assumptions are not attested yet:"),
    decision.missing.length > 0 && element("ul", { class: "missing" }, decision.missing.map((code) => element("li", {},
      element("a", { href: `#attest-${code}`, onclick: (event) => { event.preventDefault(); event.stopPropagation(); show(`attest-${code}`); } }, inPlainWords(texts[code] ?? code))))),
  );
}

function reached({ answer, reason }) {
  const value = answer.points ? answer.points[0].power.value : answer.value;
  const number = answer.type === "epsilon" ? `Epsilon of this run: at most ${rounded(value, { digits: 4 })}.` : `This run: at most ${percent(value, { digits: 4 })}.`;
  return element("p", {}, number, reason ? ` ${inPlainWords(reason)}` : "");
}

const FREED = {
  met: (value) => `The least noise that provably keeps the limit is ${rounded(value, { digits: 6 })}.`,
  trivially_met: () => "Every noise multiplier keeps this limit.",
  infeasible: () => "No noise multiplier is known to keep the limit.",
  undecided: () => "No proof shows whether some noise multiplier keeps the limit.",
};

// The least noise that keeps the limit, with a button that takes it over. `judged`: a sentence about the run that the
// number is of, where that is not the run in the form.
export function showCalibration(host, response, take, judged) {
  const words = (FREED[response.status] ?? FREED.undecided)(response.value);
  const button = response.status === "met" && take
    && element("button", { type: "button", "data-current-only": true, onclick: () => take(rounded(response.value, { digits: 6 })) }, "Use it");
  fill(host, element("p", {}, words, " ", button), judged && element("p", { class: "help" }, inPlainWords(judged)));
}
