// Beside the answer: what it rests on, hazards, words, who is not drawn, runs side by side.

import { element, fill, table } from "./dom.js";
import { percent, rounded } from "./numbers.js";
import { WORDS } from "./glossary.js";
import { hazardInWords, inPlainWords } from "./plain_words.js";
import { claimsNothing } from "./sentences.js";

const QUANTITIES = { epsilon: "Epsilon", trade_off: "Members found", reconstruction: "Reconstruction" };

// Attackers who know less: what they are called, and how the names of their lines begin.
const ATTACKERS = {
  glrt: ["The attacker who does not know the direction (GLRT)", "GLRT"],
  membership: ["The attacker who knows no records (GMIP)", "Membership"],
  practical: ["The attacker who knows the candidates (PMP)", "Practical"],
};

// Who is not among the lines of a picture, each with the reason; where a field of the form helps, open(id) leads there.
export function leftOut(response, lines, open) {
  return response.not_applicable.map(({ threat_model, reason }) => {
    const [name, start] = ATTACKERS[threat_model] ?? [threat_model, ""];
    if (start && lines.some((each) => each.startsWith(start))) return null;
    const [words, field] = helped(threat_model, reason, response) ?? [];
    const why = field ? element("button", { type: "button", class: "link", onclick: () => open(field) }, words) : inPlainWords(reason);
    return element("p", { class: "help" }, `${name} is not drawn: `, why);
  });
}

// What is missing in the form, and the field for it; null where nothing there helps.
function helped(attacker, reason, { mechanism, context, threat_model: worst }) {
  if ((worst.records ?? 1) > 1) return null;
  const dimension = context.dimension ?? (mechanism.type === "noisy_sgd" ? mechanism.dimension : undefined);
  if (attacker === "glrt" && dimension === undefined) return ["enter the number of coordinates of the model.", "dimension"];
  if (attacker === "glrt" && reason.includes("fresh_each_step")) return ["batches are sampled, and its curve is known only if every step has a new direction.", "direction"];
  if (attacker === "membership" && mechanism.type !== "noisy_sgd") return ["its curve is known only for mean gradients with noise.", "sampling"];
  if (attacker === "practical" && context.epsilon_pmp === undefined) return ["its epsilon must be computed from the data.", "epsilon-pmp"];
  return null;
}

const HOLDS = { yes: "Attested", given: "Follows from the numbers of the run", no: "Does not hold", unknown: "Not attested yet" };

const typing = new Map();  // names that are being typed, by code: an answer that comes meanwhile takes none of it away

export function showAssumptions(host, response, attested, change) {
  const all = [...response.assumptions, ...response.threat_models.flatMap((each) => each.assumptions)];
  const open = new Set([...host.querySelectorAll("details[open]")].map((each) => each.dataset.code));
  const focused = host.contains(document.activeElement) ? document.activeElement.id : null;
  const caret = focused ? document.activeElement.selectionStart ?? null : null;
  fill(
    host,
    element("p", { class: "help" }, "The numbers are no bounds if one of these assumptions does not hold. Tick the assumptions that you attest. Attestations appear in the model card, and are not checked."),
    all.map((each) => {
      const id = `attest-${each.code}`;
      const box = element("input", { type: "checkbox", id });
      box.checked = each.holds === "yes";
      box.addEventListener("change", () => change(each.code, box.checked ? { holds: "yes", by: attested[each.code]?.by ?? "" } : null));
      const by = element("input", { id: `${id}-by`, value: typing.get(each.code) ?? attested[each.code]?.by ?? "", placeholder: "team or name", maxlength: "200" });
      by.addEventListener("input", () => typing.set(each.code, by.value));
      const typed = () => { if (by.isConnected && typing.delete(each.code)) change(each.code, { holds: attested[each.code]?.holds ?? "yes", by: by.value.trim() }); };
      for (const ended of ["change", "blur"]) by.addEventListener(ended, typed);
      const denied = each.holds === "no";
      const more = element(
        "details",
        { "data-code": each.code },
        element("summary", {}, HOLDS[each.holds === "yes" && !attested[each.code] ? "given" : each.holds]),
        element("p", {}, element("strong", {}, "Otherwise: "), inPlainWords(each.if_not)),
        element("label", { for: `${id}-by` }, "Attested by "),
        by,
        element("button", { type: "button", onclick: () => change(each.code, denied ? null : { holds: "no", by: by.value.trim() }) }, denied ? "Withdraw" : "It does not hold"),
      );
      more.open = open.has(each.code);
      return element("div", { class: `assumption ${each.holds}` }, element("div", { class: "tick" }, box, element("label", { for: id }, inPlainWords(each.text))), more);
    }),
  );
  if (focused) document.getElementById(focused)?.focus();
  if (caret !== null) document.getElementById(focused)?.setSelectionRange(caret, caret);
}

// The hazards of a run. open(id) leads to the field of the form that helps.
// Hazards about numbers: a run about which nothing is proved has no numbers to be careful with.
const OF_NUMBERS = new Set(["epsilon_says_little", "one_point_hides_the_curve", "relaxed_number_alone"]);

export function showHazards(host, response, open) {
  const numbers = !claimsNothing(response);
  const left = response.hazards.filter((each) => numbers || !OF_NUMBERS.has(each.code));
  const all = left.map((each) => ({ ...each, ...hazardInWords(each) }));
  fill(host, all.length ? all.map((each) => hazard(each, numbers, open)) : element("p", {}, "No hazard is known for this run."));
}

function hazard(each, numbers, open) {
  return element(
    "details",
    { class: `hazard ${each.status}` },
    element("summary", {}, element("span", { class: "tag" }, each.status), ` ${each.title}`),
    element("p", {}, each.text),
    element("p", {}, each.effect),
    numbers && each.consequences.map((one) => element("p", {}, `${inPlainWords(one.text).replace(/\.$/, "")}: ${consequence(one.answer)}`)),
    element("p", {}, element("strong", {}, "What to do: "), each.remedy, " ",
      each.field && element("button", { type: "button", class: "link", onclick: () => open(each.field) }, "Go to the field")),
  );
}

const consequence = (answer) => (answer.type === "epsilon" ? rounded(answer.value, { digits: 4 }) : percent(answer.points ? answer.points[0].power.value : answer.value, { digits: 4 }));

export function showGlossary(host) {
  fill(host, element("dl", {}, WORDS.flatMap(([word, meaning]) => [element("dt", {}, word), element("dd", {}, meaning)])));
}

const CURVES = {
  equal: (first, second) => `${first} and ${second} are equally hard to attack.`,
  first_is_harder: (first, second) => `${first} is at least as hard to attack as ${second}.`,
  second_is_harder: (first, second) => `${second} is at least as hard to attack as ${first}.`,
  crossing: (first, second) => `Neither run is safer at every rate. Whether ${first} or ${second} is harder to attack depends on the rate of false accusations.`,
  undecided: (first, second) => `The bounds do not decide whether ${first} or ${second} is harder to attack.`,
};

export function showComparison(host, response) {
  const names = response.runs.map((run) => run.name);
  const cell = (run, quantity) => {
    const answer = run.answers[quantity.question];
    const value = quantity.point === undefined ? answer.value : answer.points[quantity.point].power.value;
    const said = answer.type === "epsilon" ? rounded(value, { digits: 4 }) : percent(value, { digits: 4 });
    return quantity.best.includes(run.name) ? element("strong", {}, `${said}${quantity.certain ? " (least)" : ""}`) : said;
  };
  fill(
    host,
    element("ul", {}, response.pairs.map((pair) => element("li", {}, CURVES[pair.curves.verdict](pair.first, pair.second),
      pair.theorem ? element("abbr", { title: pair.theorem, tabindex: "0" }, " At every rate.") : ` This holds at the ${response.false_positive_rates.length} evaluated rates.`))),
    table("The numbers of every run", ["at most", ...names], response.quantities.map((quantity) => [QUANTITIES[response.questions[quantity.question].type] ?? inPlainWords(quantity.label), ...response.runs.map((run) => cell(run, quantity))])),
    element("p", { class: "help" }, "“Least”: provably the smallest. The comparison uses the runs as described, without hazards and without the number of records of a person."),
  );
}
