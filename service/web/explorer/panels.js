// Beside the answer: verdict, what it rests on, hazards, words.

import { element, fill, table } from "./dom.js";
import { plain, rounded } from "./numbers.js";
import { WORDS } from "./glossary.js";

const VERDICTS = {
  met: ["good", "The limit is kept."],
  violated: ["bad", "The limit is not kept."],
  undecided: ["open", "The limit lies between the two ends of what is known."],
  void: ["bad", "No limit is kept: something that the numbers rest on is said not to hold."],
};
const SYMBOLS = { good: "✓", bad: "✗", open: "?" };
const QUANTITIES = { epsilon: "Epsilon", trade_off: "Members found", reconstruction: "Reconstruction" };

export function showVerdict(host, response) {
  if (!response.decision) {
    fill(host, element("p", {}, "No limit was set. Set one under The promise, and this says whether the run keeps it."));
    return;
  }
  const [kind, words] = VERDICTS[response.decision.verdict] ?? ["open", response.decision.verdict];
  fill(
    host,
    element("p", { class: `verdict ${kind}` }, element("span", { "aria-hidden": "true" }, SYMBOLS[kind]), ` ${words}`),
    response.decision.rulings.map((each) => {
      const answer = each.answer.points ? each.answer.points[0].power : each.answer;
      return element("p", {}, `${QUANTITIES[each.rule.question.type] ?? each.rule.question.type}: at most ${rounded(answer.value, { digits: 4 })}. The limit under The promise is ${plain(each.rule.at_most)}.`);
    }),
  );
}

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
    const why = field ? element("button", { type: "button", class: "link", onclick: () => open(field) }, words) : reason;
    return element("p", { class: "help" }, `${name} is not drawn: `, why);
  });
}

// What is missing in the form, and the field for it; null where nothing there helps.
function helped(attacker, reason, { mechanism, context, threat_model: worst }) {
  if ((worst.records ?? 1) > 1) return null;
  if (attacker === "glrt" && (context.dimension ?? mechanism.dimension) === undefined) return ["say how many coordinates the model has.", "dimension"];
  if (attacker === "glrt" && reason.includes("fresh_each_step")) return ["batches are sampled, so that it is known only where the direction is a new one in every step.", "direction"];
  if (attacker === "membership" && mechanism.type !== "noisy_sgd") return ["its curve is known for mean gradients with noise alone.", "sampling"];
  if (attacker === "practical" && context.epsilon_pmp === undefined) return ["its epsilon has to be computed from the data.", "epsilon-pmp"];
  return null;
}

const FREED = {
  met: (value) => `The least noise that surely keeps the limit is ${rounded(value, { digits: 6 })}.`,
  trivially_met: () => "Any noise keeps the limit.",
  infeasible: () => "No noise is known to keep the limit.",
};

// The calibrated noise, and a button that takes it over.
export function showCalibration(host, response, take) {
  const words = FREED[response.status](response.value);
  host.append(element("p", {}, words, " ", response.status === "met" && take && element("button", { type: "button", onclick: () => take(rounded(response.value, { digits: 6 })) }, "Use it")));
}

const HOLDS = { yes: "vouched for", no: "does not hold", unknown: "nobody vouches for it yet" };

const typing = new Map();  // names that are being typed, by code: an answer that comes meanwhile takes none of it away

export function showAssumptions(host, response, attested, change) {
  const all = [...response.assumptions, ...response.threat_models.flatMap((each) => each.assumptions)];
  const open = new Set([...host.querySelectorAll("details[open]")].map((each) => each.dataset.code));
  const focused = host.contains(document.activeElement) ? document.activeElement.id : null;
  const caret = focused ? document.activeElement.selectionStart ?? null : null;
  fill(
    host,
    element("p", { class: "help" }, "The numbers say nothing where one of these does not hold. Tick what you vouch for; it is written into the card, and not checked."),
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
        element("summary", {}, `${each.code.replaceAll("_", " ")}: ${HOLDS[each.holds]}`),
        element("p", {}, element("strong", {}, "Otherwise: "), each.if_not),
        element("label", { for: `${id}-by` }, "Vouched for by "),
        by,
        element("button", { type: "button", onclick: () => change(each.code, denied ? null : { holds: "no", by: by.value.trim() }) }, denied ? "Take that back" : "It does not hold"),
      );
      more.open = open.has(each.code);
      return element("div", { class: `assumption ${each.holds}` }, element("div", { class: "tick" }, box, element("label", { for: id }, each.text)), more);
    }),
  );
  if (focused) document.getElementById(focused)?.focus();
  if (caret !== null) document.getElementById(focused)?.setSelectionRange(caret, caret);
}

export function showHazards(host, response) {
  if (!response.hazards.length) {
    fill(host, element("p", {}, "None that this service knows of."));
    return;
  }
  fill(
    host,
    response.hazards.map((each) =>
      element(
        "details",
        { class: `hazard ${each.status}` },
        element("summary", {}, element("span", { class: "tag" }, each.status), ` ${each.code.replaceAll("_", " ")}`),
        element("p", {}, each.text),
        each.consequences.map((one) => element("p", {}, `${one.text}: ${rounded(one.answer.value, { digits: 4 })}`)),
        element("p", {}, element("strong", {}, "What to do: "), each.remedy),
      ),
    ),
  );
}

export function showGlossary(host) {
  fill(host, element("dl", {}, WORDS.flatMap(([word, meaning]) => [element("dt", {}, word), element("dd", {}, meaning)])));
}

const CURVES = {
  equal: (first, second) => `${first} and ${second} are equally hard to attack.`,
  first_is_harder: (first, second) => `${first} is at least as hard to attack as ${second}.`,
  second_is_harder: (first, second) => `${second} is at least as hard to attack as ${first}.`,
  crossing: (first, second) => `Neither is safer throughout: which of ${first} and ${second} is harder to attack depends on how many people are accused falsely.`,
  undecided: (first, second) => `Which of ${first} and ${second} is harder to attack is not decided by what is known.`,
};

export function showComparison(host, response) {
  const names = response.runs.map((run) => run.name);
  const cell = (run, quantity) => {
    const answer = run.answers[quantity.question];
    const value = quantity.point === undefined ? answer.value : answer.points[quantity.point].power.value;
    const best = quantity.best.includes(run.name);
    return best ? element("strong", {}, `${rounded(value, { digits: 4 })}${quantity.certain ? " ✓" : ""}`) : rounded(value, { digits: 4 });
  };
  fill(
    host,
    element("ul", {}, response.pairs.map((pair) => element("li", {}, CURVES[pair.curves.verdict](pair.first, pair.second),
      pair.theorem ? element("abbr", { title: pair.theorem, tabindex: "0" }, " At every rate.") : ` This holds at the ${response.false_positive_rates.length} rates that were looked at.`))),
    table("The numbers of every run", ["at most", ...names], response.quantities.map((quantity) => [element("abbr", { title: quantity.label, tabindex: "0" }, QUANTITIES[response.questions[quantity.question].type] ?? quantity.label), ...response.runs.map((run) => cell(run, quantity))])),
    element("p", { class: "help" }, "✓ the smallest, provably."),
  );
}
