// Words of the form for what the server calls by the names of its fields.

// Names of fields, as the server writes them in sentences.
const NAMES = [
  ["sample_rate", "sampling rate"], ["batch_size", "records in a batch"], ["1/dataset_size", "one in the number of records"],
  ["dataset_size", "records in the data"], ["max_grad_norm", "clipping norm"], ["noise_std", "noise on the mean gradient"],
  ["microbatch_size", "records averaged before clipping"], ["gradient_accumulation_steps", "backward passes per update"],
  ["tuning_runs", "runs tried on these data"], ["privacy_unit", "one person's share"], ["epsilon_pmp", "epsilon of practical membership privacy"],
  ["delta_pmp", "delta of practical membership privacy"], ["unknown_direction", "direction"], ["false_positive_rate", "rate of false accusations"],
  ["baseline_success", "chance of a blind reconstruction"], ["worst_case", "the worst case"], ["dpsgd", "a training run"], ["noisy_sgd", "mean gradients with noise"],
  ["sampling_is_poisson", "that batches are Poisson samples"], ["parameters_are_proved", "that the stated numbers are proved"],
  ["poisson_sampled", "Poisson samples"], ["add_or_remove_one", "a record added or removed"], ["replace_one", "a record replaced"],
].map(([name, words]) => [new RegExp(`\`?(?<![\\w/])${name}\\b\`?`, "g"), words]);

// A sentence of the server, without the names of its fields.
export function inPlainWords(text) {
  let said = String(text ?? "").replace(/(?<![Aa] )(?:\bthe )?`?\bnoise_multiplier\b`?/g, "the noise multiplier").replace(/ Compute it from the data with \/v1\/pmp\./g, "").replace(/\bSend a request to \/v1\/bounds for them\./g, "The API has them.");
  for (const [pattern, words] of NAMES) said = said.replace(pattern, words);
  return said.replaceAll("`", "").replace(/\b[a-z]+(_[a-z]+)+\b/g, (name) => name.replaceAll("_", " ")).replace(/\bJSON\b/g, "text").replace(/(\de-)0+(?=\d)/g, "$1");
}

// What a hazard says and what to do about it, in words of the form, with the field that helps. Absent: what the server says.
const HAZARDS = {
  columns_may_be_exchanged: { remedy: "Exchange noise multiplier and sampling rate if their order was wrong. Otherwise add more noise.", field: "noise" },
  delta_not_small: { remedy: "Choose a delta well below 1 divided by the number of records.", field: "delta", possible: ["Enter the number of records in the data.", "records-in-data"] },
  epsilon_says_little: { remedy: "Add more noise.", field: "noise" },
  fixed_batches_are_not_poisson: { remedy: "Quote these numbers, not those of Poisson sampling." },
  gradient_accumulation_counted: { remedy: "Count a step from one update of the model to the next, with the records of all its backward passes.", field: "accumulation", possible: ["Enter the number of backward passes per update.", "accumulation"] },
  large_sample_rate: { remedy: "Check that the rate is the batch size divided by all records. Smaller batches protect better.", field: "rate" },
  microbatches_double_sensitivity: { remedy: "Write 1 if every gradient is clipped on its own.", field: "microbatch" },
  one_point_hides_the_curve: { remedy: "Quote mu, or the share of members that an attack identifies, together with epsilon." },
  one_record_is_protected: { remedy: "Choose the unit that is protected, and enter its number of records.", field: "unit" },
  only_honest_reports: { text: "Reports of persons who collude with the attacker hide nobody. Nor do reports that do not follow the stated law.", remedy: "Count only honest reports.", field: "law-reports" },
  poisson_sampling_assumed: { text: "These answers do not cover batches from shuffled epochs or of a fixed size, which can be much easier to attack.", remedy: "Attest Poisson sampling under “What it rests on”, or choose how batches were drawn.", field: "sampling" },
  records_not_capped: { remedy: "Limit the records of each unit before training, and enter the limit.", field: "records" },
  relaxed_number_alone: { remedy: "Quote these numbers together with the worst case and their assumptions." },
  reports_may_repeat: { text: "Fresh reports of one person add up.", remedy: "Enter how many reports a person sends, or send the same random report again.", field: "law-times" },
  sample_rate_inconsistent: { remedy: "Describe the batches by records instead of a share.", field: "rate-by" },
  sampler_not_recorded: { text: "The library did not record how batches were drawn. These answers assume Poisson samples. Most training code shuffles, and is less private.", remedy: "Attest Poisson sampling under “What it rests on”, or enter the numbers of the run and choose how batches were drawn.", field: "source" },
  shuffled_epochs_are_not_poisson: { remedy: "Quote these numbers, not those of Poisson sampling." },
  stated_divergences_alone: { text: "Every answer is for the worst mechanism with the stated rho, or the stated bounds.", remedy: "Choose “Numbers of a run”, and describe the run itself.", field: "source" },
  stated_parameters_alone: { text: "Every answer is for the worst mechanism with the stated epsilon.", remedy: "Choose “Numbers of a run”, and describe the run itself.", field: "source" },
  tuning_not_accounted: { remedy: "Count all runs, or tune on other data.", field: "tuning", possible: ["Enter the number of runs. Enter 1 if the settings do not depend on these data.", "tuning"] },
};

// A hazard in words of the form: {title, text, remedy, field, effect}.
export function hazardInWords(hazard) {
  const row = HAZARDS[hazard.code] ?? {};
  const [remedy, field] = (hazard.status === "possible" && row.possible) || [row.remedy ?? inPlainWords(hazard.remedy), row.field];
  return { title: inPlainWords(hazard.title), text: row.text ?? inPlainWords(hazard.text.replace(/\s*\bSend [^.]*\./g, "")), remedy, field, effect: inPlainWords(hazard.effect_text) };
}
