// The terms of the page, in plain words.

export const WORDS = [
  ["Epsilon and delta", "A promise: whatever an attacker sees becomes at most e to the power of epsilon times more likely by one record, but for a chance of delta. Smaller is more private."],
  ["Noise multiplier", "How much noise is added in each step, relative to the most that one record may change the step."],
  ["Sampling rate", "The share of all records that is used in one step."],
  ["False positive rate (alpha)", "The share of people who were not in the data, and whom an attacker accuses of having been in it."],
  ["Power", "The share of people who were in the data, and whom the attacker finds. Also called true positive rate; one minus the type II error beta."],
  ["Trade-off curve", "The largest power that any attack can have at each false positive rate. It says everything that differential privacy says about a run."],
  ["Reconstruction (gamma, kappa)", "Kappa is the chance to guess a record without the model, gamma the most that it can become with the model."],
  ["Mu, Gaussian differential privacy", "One number for the whole curve: the run is no easier to attack than telling two bell curves apart that lie mu apart."],
  ["Enclosure", "Two numbers with a proof that the truth lies between them. What this page says is always the end that can be relied on."],
  ["Certified, exact, asymptotic", "Where a number comes from: every error bounded; a closed form; or an approximation, which proves nothing."],
  ["Prior", "How likely it is that a candidate was in the data, before the attacker sees the model."],
  ["Worst case", "An attacker who knows everything about the training but whether one record was in it."],
];
