// What is wrong with a field, in words of the form. The server decides what is wrong; these tables say it.

import { plain } from "./numbers.js";
import { inPlainWords } from "./plain_words.js";

// By pointer: the fields that may help, of which the first that can be seen is taken, and something to type there.
const FIELDS = [
  [/^\/runs\/\d+\/name/, ["name"], "run 2"],
  [/(^|\/)mechanism\/(content|format)|^\/(content|format)/, ["paste"], ""],
  [/(^|\/)mechanism\/noise_multiplier/, ["noise"], "1.1"],
  [/(^|\/)mechanism\/sampling/, ["sampling"], ""],
  [/(^|\/)mechanism\/sample_rate/, ["rate", "batch"], "0.01"],
  [/(^|\/)mechanism\/batch_size/, ["batch", "rate-by"], "480"],
  [/(^|\/)mechanism\/dataset_size/, ["dataset", "rate-by"], "48000"],
  [/(^|\/)mechanism\/steps/, ["steps", "epochs", "length-by", "law-times"], "1000"],
  [/(^|\/)mechanism\/epochs/, ["epochs", "steps", "length-by"], "10"],
  [/(^|\/)mechanism\/noise_std/, ["noise-std"], "2.84"],
  [/(^|\/)mechanism\/max_grad_norm/, ["clip"], "500"],
  [/(^|\/)mechanism\/dimension/, ["coordinates"], "650"],
  [/(^|\/)mechanism\/susceptibility/, ["susceptibility"], "650"],
  [/(^|\/)mechanism\/orders/, ["law-orders"], "2, 4, 8"],
  [/(^|\/)mechanism\/epsilons/, ["law-bounds"], "0.5, 1, 2"],
  [/(^|\/)(mechanism|randomizer)\/epsilon/, ["stated-epsilon", "law-epsilon"], "1.2"],
  [/(^|\/)(mechanism|randomizer)\/options/, ["law-options"], "4"],
  [/(^|\/)mechanism\/true_bit/, ["law-true-bit"], "0.5"],
  [/(^|\/)mechanism\/false_bit/, ["law-false-bit"], "0.25"],
  [/(^|\/)mechanism\/gamma/, ["law-gamma"], "0.5"],
  [/(^|\/)mechanism\/sigma/, ["law-sigma"], "5"],
  [/(^|\/)mechanism\/scale/, ["law-scale"], "2"],
  [/(^|\/)mechanism\/variance/, ["law-variance"], "100"],
  [/(^|\/)mechanism\/sensitivity/, ["law-sensitivity"], "1"],
  [/(^|\/)mechanism\/threshold_epsilon/, ["law-threshold"], "0.5"],
  [/(^|\/)mechanism\/query_epsilon/, ["law-query"], "0.5"],
  [/(^|\/)mechanism\/positives/, ["law-positives"], "1"],
  [/(^|\/)mechanism\/reports/, ["law-reports"], "10000"],
  [/(^|\/)mechanism\/trials/, ["law-mean"], "10"],
  [/(^|\/)mechanism\/delta/, ["stated-delta"], "1e-5"],
  [/(^|\/)mechanism\/mu/, ["stated-mu", "law-mu"], "0.5"],
  [/(^|\/)mechanism\/rho/, ["stated-rho"], "0.5"],
  [/^\/claims\/\d+\/(value|claimed)/, ["claim"], "1.2"],
  [/^\/context\/subject\/name|^\/context\/subject$/, ["subject"], "Digit recogniser"],
  [/^\/context\/subject\/version/, ["version"], "1.0"],
  [/^\/context\/date/, ["date"], "2026-11-24"],
  [/^\/context\/prepared_by/, ["prepared-by"], "ML platform"],
  [/^\/context\/delta$|question(s\/\d+)?\/delta/, ["delta", "stated-delta"], "1e-5"],
  [/^\/context\/false_positive_rate|\/false_positive_rates/, ["fpr"], "0.001"],
  [/^\/context\/baseline_success|\/baseline_success/, ["kappa"], "0.001"],
  [/^\/context\/prior/, ["prior"], "0.5"],
  [/^\/context\/dataset_size/, ["records-in-data", "dataset"], "48000"],
  [/^\/context\/privacy_unit/, ["unit"], ""],
  [/^\/context\/records|^\/threat_model/, ["records", "unit"], "4"],
  [/^\/context\/microbatch_size/, ["microbatch"], "1"],
  [/^\/context\/gradient_accumulation_steps/, ["accumulation"], "1"],
  [/^\/context\/tuning_runs/, ["tuning"], "1"],
  [/^\/context\/dimension/, ["dimension"], "1000"],
  [/^\/context\/unknown_direction/, ["direction"], ""],
  [/^\/context\/epsilon_pmp/, ["epsilon-pmp"], "0.5"],
  [/^\/context\/delta_pmp/, ["delta-pmp"], "0"],
  [/at_most|at_least|^\/policy\/rules/, ["limit"], "2"],
  [/^\/policy\/requires/, ["requires"], ""],
];

// Fields that contradict each other, by the first of them and what the server says.
const CONTRADICTIONS = [
  ["batch", /at most .*dataset_size/, () => "A batch cannot have more records than the data. Lower this number, or raise “Records in the data”."],
  ["records", /at most .*dataset_size/, () => "A person cannot have more records than the data. Lower this number, or raise “Records in the data”."],
  ["records", /up to (\d+) records/, (found) => `At most ${found[1]} records of one person are supported for this run.`],
  ["records", /one record/, () => "Only one record of a person is supported for this kind of batches."],
  ["rate-by", /both sizes/, () => "Records that may repeat need both sizes: choose “records” here, and fill in the records in the data."],
  ["delta-pmp", /epsilon_pmp/, () => "Fill in this number and the epsilon of practical membership privacy, or neither."],
  ["records-in-data", /mechanism has \w+ (\d+)/, (found) => `The pasted state has ${found[1]}. Enter the same number, or leave the field empty.`],
  ["records-in-data", /batch_size|batches/, () => "The data cannot have fewer records than a batch."],
  ["law-true-bit", /above false/, () => "A one must be more likely for a bit of the true value than for another bit."],
  ["law-orders", /./, () => "Write rising numbers of at least 1, separated by commas, and one bound for each of them."],
  ["law-bounds", /./, () => "Write one number for each order, separated by commas. They do not fall."],
  ["name", /Another run/, () => "Another run has this name."],
  ["name", /./, () => "Write 1 to 64 letters, digits or signs."],
  ["date", /./, () => "Write a day of the calendar that is not in the future, as year, month, day: 2026-11-24."],
  ["subject", /Required/, () => "A version needs a name: fill in the name of the model or release."],
  ...["subject", "version", "prepared-by"].map((each) => [each, /./, () => "Write 1 to 200 characters in one line."]),
];

const NO_NUMBERS = new Set(["name", "subject", "version", "date", "prepared-by", "rate-by", "length-by", "unit", "sampling", "direction", "requires", "law-orders", "law-bounds"]);
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const GROUPED = /^\d{1,3}([.,  '’_]\d{3})+$/;
const at = (each) => (each >= 1e7 ? each.toExponential().replace("e+", "e") : plain(each));

// Kinds of wrong numbers, in the order in which they are looked for: is(typed, of the server), what is said, what was meant.
const KINDS = [
  [(text) => text === "", (text, { example }) => [`Fill this in, for example ${example}.`]],
  [(text) => /^[+-]?[\d.,]+\s*%$/.test(text), (text, { whole }) => (whole ? ["Write a whole number, without %."] : [`Write a share: ${shareOf(text)} for ${text}.`, shareOf(text)])],
  [(text, { whole }) => whole && GROUPED.test(text), (text) => [`Write it without separators: ${text.replace(/\D/g, "")}`, text.replace(/\D/g, "")]],
  [(text) => /^[+-]?\d*,\d+([eE][+-]?\d+)?$/.test(text), (text) => [`Use a decimal point: ${text.replace(",", ".")}`, text.replace(",", ".")]],
  [(text) => !NUMBER.test(text), (text, { example }) => [`Write a number in digits, for example ${example}.`]],
  [(text, { whole }) => whole && !Number.isInteger(Number(text)), () => ["Must be a whole number."]],
  [(text, { range }) => range && range.above && Number(text) <= range.least, (text, { range }) => [`Must be above ${at(range.least)}.`]],
  [(text, { range }) => range && Number(text) < range.least, (text, { range }) => [`Must be at least ${at(range.least)}.`]],
  [(text, { range }) => range && range.most === 1 && Number(text) > 1 && Number(text) < 100, (text) => [`Must be a share of at most 1. Did you mean ${shareOf(text)}?`, shareOf(text)]],
  [(text, { range }) => range && Number(text) > range.most, (text, { range }) => [`Must be at most ${at(range.most)}.`]],
];
const REST = "This value contradicts the rest of the form.";

// A hundredth of a decimal, by moving its exponent.
function shareOf(text) {
  const value = Number(text.replace("%", "").replace(",", ".").trim());
  const [mantissa, exponent] = value.toExponential().split("e");
  return plain(Number(`${mantissa}e${Number(exponent) - 2}`));
}

// The range in a sentence of the server: {least, most, above}, or null.
function rangeOf(detail) {
  const found = /in ([[(])([\d.e+-]+), ([\d.e+-]+)[\])]/.exec(detail);
  return found ? { above: found[1] === "(", least: Number(found[2]), most: Number(found[3]) } : null;
}

// The ids of the fields that may help at a pointer, and an example.
export function placeOf(pointer) {
  const found = FIELDS.find(([pattern]) => pattern.test(pointer));
  return found ? { ids: found[1], example: found[2] } : { ids: [], example: "" };
}

// What to say beside a field: {words, meant}, where `meant` is what should perhaps stand there.
export function wordsFor(id, text, detail, pointer = "") {
  if (id === "paste") return { words: ofPasted(pointer, detail) };
  const meant = /Did you mean ([\d.e+-]+)\?/.exec(detail)?.[1];
  if (meant) return { words: inPlainWords(detail), meant };
  const of = { whole: /integer/.test(detail), range: rangeOf(detail), example: placeOf(pointer).example };
  const trimmed = text.trim();
  if (!NO_NUMBERS.has(id) && (of.range || /^Required|JSON numbers/.test(detail))) {
    const kind = KINDS.find(([is]) => is(trimmed, of));
    if (kind) {
      const [words, likely] = kind[1](trimmed, of);
      return { words, meant: likely };
    }
  }
  for (const [of_, pattern, words] of CONTRADICTIONS) {
    const found = of_ === id ? pattern.exec(detail) : null;
    if (found) return { words: words(found) };
  }
  return { words: id === "limit" ? inPlainWords(detail) : REST };
}

// Where something is in a pasted state: "“history”, 1st, 2nd".
function placeInPasted(pointer) {
  const parts = (pointer.split("/content/")[1] ?? "").split("/").filter((each) => each !== "");
  return parts.map((each) => (/^\d+$/.test(each) ? `number ${Number(each) + 1}` : `“${each}”`)).join(", ");
}

const LIBRARIES = "Opacus, dp-accounting, TensorFlow Privacy, JAX Privacy, riskcal and this service";

function ofPasted(pointer, detail) {
  const place = placeInPasted(pointer);
  if (/known formats|Known formats/.test(detail) || !place) return `No supported library prints this. Supported are ${LIBRARIES}.`;
  if (/look exchanged/.test(detail)) return `At ${place}: the columns look exchanged. Their order is noise multiplier, sampling rate, number of steps.`;
  if (/^Required/.test(detail)) return `${place} is missing in the pasted text.`;
  if (/^Unknown field/.test(detail)) return `${place} is not a known field of this library.`;
  const range = rangeOf(detail);
  if (!range) return `The pasted text cannot be read at ${place}.`;
  return `At ${place}: must be ${/integer/.test(detail) ? "a whole number" : "a number"} ${range.above ? "above" : "of at least"} ${at(range.least)} and at most ${at(range.most)}.`;
}

// What to say where no field helps, by the type of the problem.
export function wordsElsewhere(type) {
  if (type === "/problems/unsupported-combination") return "No known theorem covers this combination. Choose another kind of batches, or one record of a person.";
  return "The server cannot answer part of the form. “as curl” shows the request in the words of the guide.";
}
