"""Monotonicity of privacy in the numbers of a description, with theorems.

Less private means that an attacker has at least as much power at every false positive rate, in both directions,
whatever else is composed with the step. Every theorem compares the pairs of single steps. If post-processing turns the
output of a first step into that of a second step, the second is not easier to attack. The order is kept by adaptive
composition (Zhu, Dong, Wang 2022, Theorem 10), by sampling (the power at a rate q is (1 - q) alpha + q power), and by
mixing. Upper bounds of brackets are curves of pairs too, and move in the same direction.

Noise. Gaussian noise of a larger scale is the smaller noise plus independent Gaussian noise. Sampled sums get their
noise after the sample is drawn. Laplace noise of scale b' > b is Laplace noise of scale b plus independent noise. This
noise is 0 with probability b^2/b'^2, and otherwise Laplace noise of scale b'. Proof by characteristic functions:
1/(1 + b^2 t^2) for scale b, and
(1 + b^2 t^2)^-1 [b^2/b'^2 (1 + b'^2 t^2) + (1 - b^2/b'^2)]/(1 + b'^2 t^2) = 1/(1 + b'^2 t^2) for the sum.

Discrete noise. Let l = e^{-1/scale}. Discrete Laplace noise has the characteristic function (1 - l)^2/(1 - 2 l cos t +
l^2). For l < l' the quotient of both functions is a positive multiple of l/l' + (1 - l/l')(1 - l l')/(1 - 2 l' cos t +
l'^2). This is the function of 0 or noise with l'. Skellam noise is closed under sums. Staircase noise with e =
e^-epsilon and share g: the best deterministic test has the false positive rate e N/(2 D) and the power N/(2 D). Here D
= g + (1 - g) e, and N = 2 g + (1 - 2 g) e for g <= 1/2, else 1. N/D falls with e, and e N/D rises with e.

Reports. k-ary randomised responses are matrices c I + (1 - c) J/k, with c rising in epsilon, and products of such
matrices multiply c. Bits of the probabilities (p', q) become bits of (p, q) as follows. Every bit is kept with
probability c = (p - q)/(p' - q), and otherwise drawn with probability q. The same holds for (p, q').

Rates. Keep the output of a step of rate q with probability c, and otherwise draw it from the law N(0) without the
record. This maps the pair (1 - q) N(0) + q N(+-mu) to the pair of rate c q, and keeps N(0). Several records are hit
less often: binomial and hypergeometric laws increase stochastically with the rate and the batch, and decrease with the
size of the data set. A mixture of smaller shifts is not easier to attack (Choquette-Choo, Ganesh, Steinke, Thakurta
2024, Corollary 4.7). A coordinate of noise at a random position turns a shuffled epoch into an epoch with one batch
more.

Steps. Fewer results are a function of all results. Stated guarantees: a mechanism with the stronger guarantee has the
weaker one. Records: one of k + 1 records may change nothing, so data sets that differ in k records are among those that
differ in k + 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class Law:
    """Direction in which privacy moves with a number, and its proof.

    Attributes
    ----------
    sign : int or None
        1 if a larger number is more private (for a question: gives a larger answer), -1 if a smaller number is more
        private, 0 if nothing depends on the number, and None if unknown.
    theorem : str
        Proof; "" if the sign is not proved.
    """

    sign: int | None
    theorem: str = ""


UNKNOWN: Final = Law(None)
MORE_NOISE: Final = Law(1, "larger noise equals smaller noise plus independent noise (post-processing in every step)")
LAPLACE: Final = Law(
    1,
    "Laplace noise of a larger scale equals Laplace noise of a smaller scale plus independent "
    "noise, which is 0 or Laplace (by characteristic functions)",
)
LESS_OFTEN: Final = Law(
    -1,
    "a lower rate equals a higher rate followed by random omission of the record "
    "(post-processing in every step); for several records the number in a batch is "
    "stochastically smaller (Choquette-Choo et al. 2024, Corollary 4.7)",
)
LARGER_DATA: Final = Law(1, LESS_OFTEN.theorem)
MORE_BATCHES: Final = Law(
    -1,
    "an epoch with more batches equals an epoch with fewer batches and noise inserted at random "
    "positions (post-processing); the number of epochs does not rise",
)
FEWER_STEPS: Final = Law(-1, "the results of fewer steps are a function of the results of all steps (post-processing)")
STATED: Final = Law(-1, "by definition: a mechanism with a guarantee has every weaker guarantee")
STATED_AT_LARGER_ORDERS: Final = Law(
    1, "Renyi divergences rise with their order, so a bound at a larger order holds at every smaller order"
)
SHORTER_SHIFTS: Final = Law(
    -1, "a mixture of smaller shifts is at least as hard to attack (Choquette-Choo et al. 2024, Corollary 4.7)"
)
CLIPPED: Final = Law(-1, "gradients clipped to a smaller norm are also clipped to every larger norm")
MORE_RECORDS: Final = Law(
    -1, "one of the records may change nothing, so the pairs of data sets for fewer records are included"
)
NOT_READ: Final = Law(0, "the worst case does not depend on the number")

_SMALLER_CHANGE: Final = Law(-1, "a query that changes by no more than a number changes by no more than a larger one")
_OTHER_BITS: Final = Law(
    -1, "a second randomisation of every bit brings its two probabilities closer (post-processing)"
)
DISCRETE: Final[Mapping[tuple[str, str], Law]] = {
    ("randomized_response", "epsilon"): Law(
        -1, "a second randomised response to the report is one of a smaller epsilon (post-processing)"
    ),
    ("randomized_response", "options"): Law(
        1, "the loss is 0 with a larger probability and otherwise +-epsilon with the same odds (random omission)"
    ),
    ("shuffled_reports", "reports"): Law(
        1, "a report of one more person, whose value is known, may be added before shuffling (post-processing)"
    ),
    ("unary_encoding", "true_bit"): _OTHER_BITS,
    ("unary_encoding", "false_bit"): Law(1, _OTHER_BITS.theorem),
    ("unary_encoding", "bits_per_value"): Law(-1, "fewer bits are a function of all bits (post-processing)"),
    ("staircase", "epsilon"): Law(
        -1,
        "the most powerful deterministic test has a lower false positive rate and a higher power for a larger epsilon",
    ),
    ("discrete_laplace", "scale"): Law(
        1,
        "discrete Laplace noise of a larger scale equals noise of a smaller scale plus independent noise, which is 0 "
        "or discrete Laplace (by characteristic functions)",
    ),
    ("discrete_laplace", "sensitivity"): _SMALLER_CHANGE,
    ("discrete_gaussian", "sensitivity"): _SMALLER_CHANGE,
    ("skellam", "variance"): MORE_NOISE,
    ("skellam", "sensitivity"): _SMALLER_CHANGE,
    ("report_noisy_max", "scale"): Law(
        1, "scores and noise divided by one number give the same choices, so a larger scale is a smaller sensitivity"
    ),
    ("report_noisy_max", "sensitivity"): _SMALLER_CHANGE,
    ("permute_and_flip", "epsilon"): Law(
        -1, "the mechanism of a smaller epsilon is that of a larger epsilon with a smaller change of all scores"
    ),
}
"""Laws of discrete and local mechanisms."""

MECHANISMS: Final[Mapping[tuple[str, str], Law]] = {
    ("gaussian", "noise_multiplier"): MORE_NOISE,
    ("gaussian_mixture", "noise_multiplier"): MORE_NOISE,
    ("gaussian_mixture", "shifts"): SHORTER_SHIFTS,
    ("laplace", "noise_multiplier"): LAPLACE,
    ("gdp", "mu"): STATED,
    ("pure_dp", "epsilon"): STATED,
    ("approximate_dp", "epsilon"): STATED,
    ("approximate_dp", "delta"): STATED,
    ("zcdp", "rho"): STATED,
    ("rdp", "orders"): STATED_AT_LARGER_ORDERS,
    ("rdp", "epsilons"): STATED,
    ("exponential", "epsilon"): Law(
        -1, "scores divided by a larger epsilon have a smaller sensitivity, and such scores are allowed"
    ),
    **DISCRETE,
    ("poisson_sampled", "sample_rate"): LESS_OFTEN,
    ("repeated", "steps"): FEWER_STEPS,
    ("dpsgd", "noise_multiplier"): MORE_NOISE,
    ("dpsgd", "sample_rate"): LESS_OFTEN,
    ("dpsgd", "batch_size"): LESS_OFTEN,
    ("dpsgd", "dataset_size"): LARGER_DATA,
    ("dpsgd", "steps"): FEWER_STEPS,
    ("dpsgd", "epochs"): FEWER_STEPS,
    ("noisy_sgd", "noise_std"): MORE_NOISE,
    ("noisy_sgd", "max_grad_norm"): CLIPPED,
    ("noisy_sgd", "dataset_size"): LARGER_DATA,
    ("noisy_sgd", "steps"): FEWER_STEPS,
    ("noisy_sgd", "dimension"): NOT_READ,
    ("noisy_sgd", "susceptibility"): NOT_READ,
}
"""Laws by the type of a mechanism and the name of its field."""
TRIALS: Final[Mapping[tuple[str, str], Law]] = {
    ("fixed", "count"): Law(-1),
    ("geometric", "mean"): Law(-1),
    ("truncated_negative_binomial", "mean"): Law(-1),
    ("poisson", "mean"): Law(-1),
    ("binomial", "count"): Law(-1),
    ("binomial", "probability"): Law(-1),
}
"""Laws by the law of a number of trials and its field. The signs are those of all computed examples, without proofs."""
SIZES: Final = ("sample_rate", "batch_size", "dataset_size")
"""Fields of `dpsgd` that determine the steps if `epochs` is stated."""
NOT_IN_SAMPLING: Final = ("noise_multiplier", "noise_std", "max_grad_norm", "steps", "epochs")
"""Fields that do not change the sampling of records, and thus not the supported neighbouring relations."""
RELAXED: Final[Mapping[tuple[str, str], Law]] = {
    ("worst_case", "records"): MORE_RECORDS,
    ("practical", "epsilon_pmp"): STATED,
    ("practical", "delta"): STATED,
    ("glrt", "dimension"): Law(1),
    ("noisy_sgd", "dimension"): UNKNOWN,
    ("noisy_sgd", "susceptibility"): Law(-1),
}
"""Laws by threat model and field, and of mechanism fields that only a relaxed threat model uses."""

_DEFINED: Final = Law(-1, "by definition: a larger delta or a larger epsilon is a weaker guarantee")
_CONCAVE: Final = (
    "the largest power is a concave function of the false positive rate, at least 0 at rate 0 and equal to 1 at rate 1"
)
_BAYES: Final = "by Bayes' rule, the posterior probability of membership rises with the prior"
QUESTIONS: Final[Mapping[tuple[str, str], Law]] = {
    ("epsilon", "delta"): _DEFINED,
    ("delta", "epsilon"): _DEFINED,
    # Larger minima leave fewer rates for the comparison. Without any rate, mu is that of the whole curve: no proof.
    ("gdp_mu", "false_positive_rate_min"): Law(-1),
    ("gdp_mu", "type_two_error_min"): Law(-1),
    ("power", "false_positive_rates"): Law(1, "the largest power does not decrease with the false positive rate"),
    ("type_two_error", "false_positive_rates"): Law(
        -1, "the largest power does not decrease with the false positive rate"
    ),
    ("reconstruction", "baseline_success"): Law(
        1, "gamma is the largest power at rate kappa, which does not decrease with the rate"
    ),
    ("reconstruction", "candidates"): Law(
        -1, "gamma is the largest power at rate 1/n, which does not decrease with the rate"
    ),
    ("positive_predictive_value", "prior"): Law(1, _BAYES),
    ("negative_predictive_value", "prior"): Law(-1, _BAYES),
    ("deletion_capacity", "prior"): Law(-1, _BAYES),
    ("deletion_capacity", "confidence"): Law(-1, "the capacity is floor(ln B/ln L)"),
    ("unlearning_guarantee", "prior"): Law(-1, _BAYES),
    ("unlearning_guarantee", "confidence"): Law(0, "the probability does not depend on the confidence"),
    # power(a)/a and f(a)/(1 - a) decrease, by the chord to an endpoint of a convex curve.
    ("positive_predictive_value at_most", "false_positive_rate"): Law(-1, _CONCAVE),
    ("positive_predictive_value at_least", "false_positive_rate"): Law(1, _CONCAVE),
    ("negative_predictive_value at_most", "false_positive_rate"): Law(1, _CONCAVE),
    ("negative_predictive_value at_least", "false_positive_rate"): Law(-1, _CONCAVE),
}
"""Laws of answers by the type of a question and the name of its parameter.

The type of `trade_off` is replaced by `power` or `type_two_error`. Predictive values at a rate also have the side.
"""


def law_of_mechanism(kind: str, field: str, fields: Mapping[str, object], *, worst_case: bool) -> Law:
    """Return in which direction privacy moves with a field of a mechanism, and the theorem.

    Parameters
    ----------
    kind, field : str
        Type of the mechanism and name of the field.
    fields : mapping
        Fields of the mechanism.
    worst_case : bool
        Whether the adversary is that of differential privacy. For other adversaries the sign is expected, but not
        proved.

    Returns
    -------
    Law
        Sign and theorem; an unknown field has the sign None.
    """
    law = MECHANISMS.get((kind, field)) or TRIALS.get((kind, field), UNKNOWN)
    if not worst_case:
        return RELAXED.get((kind, field), Law(law.sign))
    if kind == "dpsgd" and field in SIZES:
        if fields.get("sampling") == "shuffled" and law.sign is not None:
            return Law(law.sign, MORE_BATCHES.theorem)
        if steps_follow(kind, field, fields):
            return Law(law.sign)
    return law


def steps_follow(kind: str, field: str, fields: Mapping[str, object]) -> bool:
    """Return whether another value of the field `field` changes the number of training steps of a mechanism `kind`.

    `fields` are all fields of the mechanism. Privacy is then not monotone in the field: a smaller sampling rate gives
    more steps for the same epochs, and the number of steps is rounded up. Shuffled epochs are monotone
    (`MORE_BATCHES`), so that the result is False for them.
    """
    return (
        kind == "dpsgd" and field in SIZES and fields.get("epochs") is not None and fields.get("sampling") != "shuffled"
    )


def law_of_threat_model(kind: str, field: str) -> Law:
    """Return in which direction privacy moves with the field `field` of a threat model `kind`, and the theorem.

    An unknown field has the sign None.
    """
    return RELAXED.get((kind, field), UNKNOWN)


def law_of_question(read: str, field: str, side: str | None) -> Law:
    """Return in which direction an answer moves with the field `field` of its question, and the theorem.

    `read` is the type of the question; for a trade-off it is `power` or `type_two_error`. `side` of a predictive value
    is "at_most" (largest value over all attacks) or "at_least" (smallest); None otherwise. An unknown field has the
    sign None.
    """
    found = QUESTIONS.get((read, field))
    return found if found is not None else QUESTIONS.get((f"{read} {side}", field), UNKNOWN)
