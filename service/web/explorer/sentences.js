// Five sentences about a run. Their numbers are those of the server, rounded to the safe side.

import { element } from "./dom.js";
import { oneIn, percent, plain, rounded } from "./numbers.js";

const strong = (text) => element("strong", {}, text);
const term = (text, title) => element("abbr", { title, tabindex: "0" }, text);

export function sentences(response) {
  const answers = Object.fromEntries(response.threat_models[0].answers.map((answer) => [answer.type, answer]));
  const { context } = response;
  const rate = context.false_positive_rate;
  const power = answers.trade_off.points.find((point) => point.false_positive_rate === rate).power.value;
  const unit = context.privacy_unit === "example" ? "record" : context.privacy_unit;
  return [
    [
      "The run is ",
      term(`(${rounded(answers.epsilon.value, { digits: 4 })}, ${plain(context.delta)})-differentially private`,
        "Epsilon and delta: whatever an attacker sees becomes at most e to the power of epsilon times more likely by one record, but for a chance of delta."),
      ` for each ${unit}.`,
    ],
    [`An attacker who wrongly accuses ${oneIn(rate)} people outside the data finds at most `, strong(percent(power)), ` of those in it. Blind guesses find ${percent(rate, { digits: 6 })}.`],
    [`A ${unit} that would be guessed with a chance of ${percent(context.baseline_success, { digits: 6 })} without the model is reconstructed with at most `,
      strong(percent(answers.reconstruction.value)), " with it."],
    [`If ${percent(context.prior, { digits: 6 })} of the candidates were in the data, the best attacker is right about at most `,
      strong(percent(answers.attack_accuracy.value)), " of them."],
    grounds(response, Object.values(answers)),
  ];
}

const PROVED = new Set(["exact", "certified", "proved"]);

function grounds(response, answers) {
  const open = response.assumptions.filter((each) => each.holds === "unknown").length;
  const broken = response.assumptions.filter((each) => each.holds === "no").length;
  const total = response.assumptions.length;
  const proved = answers.every((answer) => PROVED.has(answer.evidence));
  const bracket = answers.some((answer) => answer.tight === false);
  const how = proved ? "These numbers are proved" : "Not all of these numbers are proved";
  const width = bracket ? ", though some attacks may fall short of them" : "";
  if (broken) return [strong("None of this holds"), `: ${broken} of the ${total} assumptions is said not to hold.`];
  if (!total) return [`${how}${width}.`];
  if (!open) return [`${how}${width}, and somebody vouches for all ${total} assumptions they rest on.`];
  return [`${how}${width}. They rest on ${total} assumptions, of which nobody vouches for ${open} yet: see `,
    element("a", { href: "#assumptions-title", class: "inside" }, "what it rests on"), "."];
}
