"""Which way privacy moves with a number of a description, and by which theorem.

Less private means: at every false positive rate, in both directions, whatever else is composed with it, an attacker has
at least as much power. Every theorem is about the pair of a step: a step all of whose tests the other one has too
(post-processing) is no easier to attack, and so is what is composed of such steps, adaptively too (Zhu, Dong, Wang
2022, Theorem 10), sampled (power at a rate q is (1 - q) alpha + q power), or mixed. Upper ends of brackets are curves
of pairs too, and move the same way.

Noise. Gaussian noise of a larger scale is the smaller noise and independent Gaussian noise on top; sampled sums get
their noise after the sample was drawn. Laplace noise of scale b' > b is that of scale b with, added to it, 0 with
probability b^2/b'^2 and else Laplace noise of scale b': the characteristic functions are 1/(1 + b^2 t^2) and
(1 + b^2 t^2)^-1 [b^2/b'^2 (1 + b'^2 t^2) + (1 - b^2/b'^2)]/(1 + b'^2 t^2) = 1/(1 + b'^2 t^2).

Rates. What a step with rate q gives is kept with probability c, and else drawn anew from the law N(0) in which the
record takes no part: the pair (1 - q) N(0) + q N(+-mu) becomes that of the rate c q, and N(0) stays N(0). Several
records are hit less often (binomial and hypergeometric laws rise stochastically with the rate and the batch, and fall
with the size of the data set), and a mixture of shifts is no easier to attack where each shift is smaller
(Choquette-Choo, Ganesh, Steinke, Thakurta 2024, Corollary 4.7). A shuffled epoch of one more batch is had by putting a
coordinate of noise at a random place.

Steps. Who sees fewer results sees a function of all of them. Stated guarantees: what has the better one has the worse.
Records: one of k + 1 records may be one that changes nothing, so that data sets k records apart are among those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class Law:
    """`sign`: 1 where a larger number is more private (or, of a question, gives a larger answer), -1 where a smaller
    one is, 0 where nothing depends on it; None where it is not known. `theorem`: why; "" where that is no proof.
    """

    sign: int | None
    theorem: str = ""


UNKNOWN: Final = Law(None)
MORE_NOISE: Final = Law(1, "more noise is less noise and independent noise on top (post-processing in every step)")
LAPLACE: Final = Law(
    1,
    "Laplace noise of a larger scale is that of a smaller one and independent noise on top, 0 or Laplace (their "
    "characteristic functions)",
)
LESS_OFTEN: Final = Law(
    -1,
    "a record that takes part less often is had by forgetting it now and then (post-processing in every step); several "
    "are hit stochastically less often (Choquette-Choo et al. 2024, Corollary 4.7)",
)
LARGER_DATA: Final = Law(1, LESS_OFTEN.theorem)
MORE_BATCHES: Final = Law(
    -1, "an epoch of more batches is one of fewer with noise at random places (post-processing); no more epochs"
)
FEWER_STEPS: Final = Law(-1, "fewer results are a function of all of them (post-processing)")
STATED: Final = Law(-1, "by definition: what has a guarantee has every weaker one")
SHORTER_SHIFTS: Final = Law(
    -1, "a mixture of smaller shifts is no easier to attack (Choquette-Choo et al. 2024, Corollary 4.7)"
)
CLIPPED: Final = Law(-1, "gradients that are clipped to a smaller norm are among those clipped to a larger one")
MORE_RECORDS: Final = Law(
    -1, "one of the records may be one that changes nothing: the data sets of fewer are among them"
)
NOT_READ: Final = Law(0, "the worst case does not depend on it")

MECHANISMS: Final[Mapping[tuple[str, str], Law]] = {
    ("gaussian", "noise_multiplier"): MORE_NOISE,
    ("gaussian_mixture", "noise_multiplier"): MORE_NOISE,
    ("gaussian_mixture", "shifts"): SHORTER_SHIFTS,
    ("laplace", "noise_multiplier"): LAPLACE,
    ("gdp", "mu"): STATED,
    ("pure_dp", "epsilon"): STATED,
    ("approximate_dp", "epsilon"): STATED,
    ("approximate_dp", "delta"): STATED,
    ("exponential", "epsilon"): Law(
        -1, "scores over a larger epsilon are scores of a smaller sensitivity, which are among those allowed"
    ),
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
"""By the type of a mechanism and the name of its field."""
SIZES: Final = ("sample_rate", "batch_size", "dataset_size")
"""Fields of `dpsgd` from which the steps follow where `epochs` is stated."""
NOT_IN_SAMPLING: Final = ("noise_multiplier", "noise_std", "max_grad_norm", "steps", "epochs")
"""Fields that do not change how records are drawn, and so not which neighbouring relations are served."""
RELAXED: Final[Mapping[tuple[str, str], Law]] = {
    ("worst_case", "records"): MORE_RECORDS,
    ("practical", "epsilon_pmp"): STATED,
    ("practical", "delta"): STATED,
    ("glrt", "dimension"): Law(1),
    ("noisy_sgd", "dimension"): UNKNOWN,
    ("noisy_sgd", "susceptibility"): Law(-1),
}
"""The same of threat models, and of fields that only a relaxed one reads."""

_DEFINED: Final = Law(-1, "by definition: a guarantee that may fail more often, or says less, is easier to have")
_CONCAVE: Final = "the largest power is a concave function of the rate from 0 or above to 1"
_BAYES: Final = "Bayes' rule: the posterior rises with the prior"
QUESTIONS: Final[Mapping[tuple[str, str], Law]] = {
    ("epsilon", "delta"): _DEFINED,
    ("delta", "epsilon"): _DEFINED,
    # Fewer rates at which the curve is compared; but where none is left mu is that of the whole curve.
    ("gdp_mu", "false_positive_rate_min"): Law(-1),
    ("gdp_mu", "type_two_error_min"): Law(-1),
    ("power", "false_positive_rates"): Law(1, "the largest power does not fall with the rate"),
    ("type_two_error", "false_positive_rates"): Law(-1, "the largest power does not fall with the rate"),
    ("reconstruction", "baseline_success"): Law(1, "gamma is the largest power, which does not fall with the rate"),
    ("reconstruction", "candidates"): Law(-1, "gamma is the largest power at 1/n, which does not fall with the rate"),
    ("positive_predictive_value", "prior"): Law(1, _BAYES),
    ("negative_predictive_value", "prior"): Law(-1, _BAYES),
    ("deletion_capacity", "prior"): Law(-1, _BAYES),
    ("deletion_capacity", "confidence"): Law(-1, "the capacity is floor(ln B/ln L)"),
    ("unlearning_guarantee", "prior"): Law(-1, _BAYES),
    ("unlearning_guarantee", "confidence"): Law(0, "the probability does not depend on it"),
    # With power(a)/a falling and f(a)/(1 - a) falling, both by the chord to an end of a convex curve.
    ("positive_predictive_value at_most", "false_positive_rate"): Law(-1, _CONCAVE),
    ("positive_predictive_value at_least", "false_positive_rate"): Law(1, _CONCAVE),
    ("negative_predictive_value at_most", "false_positive_rate"): Law(1, _CONCAVE),
    ("negative_predictive_value at_least", "false_positive_rate"): Law(-1, _CONCAVE),
}
"""How an answer moves with a parameter of its question: by the type (of `trade_off` what is read of it, of predictive
values at a rate with the side)."""


def of_mechanism(kind: str, field: str, sent: Mapping[str, object], *, worst_case: bool) -> Law:
    """How privacy moves with a field of a mechanism of this type. `sent`: its fields. `worst_case`: against the
    adversary of differential privacy; else the sign is what is expected, and nothing is proved.
    """
    law = MECHANISMS.get((kind, field), UNKNOWN)
    if not worst_case:
        return RELAXED.get((kind, field), Law(law.sign))
    if kind == "dpsgd" and field in SIZES:
        if sent.get("sampling") == "shuffled" and law.sign is not None:
            return Law(law.sign, MORE_BATCHES.theorem)
        if steps_follow(kind, field, sent):
            return Law(law.sign)
    return law


def steps_follow(kind: str, field: str, sent: Mapping[str, object]) -> bool:
    """Return whether another number in this field changes the number of steps, so that privacy is not monotone in the
    field: a smaller rate makes more steps of the same epochs, and their number is rounded up. Shuffled epochs are
    monotone: `MORE_BATCHES`.
    """
    return kind == "dpsgd" and field in SIZES and sent.get("epochs") is not None and sent.get("sampling") != "shuffled"


def of_threat_model(kind: str, field: str) -> Law:
    """How privacy moves with a field of a threat model of this type."""
    return RELAXED.get((kind, field), UNKNOWN)


def of_question(read: str, field: str, side: str | None) -> Law:
    """How the answer moves with a field of its question. `read`: its type, of a trade-off `power` or `type_two_error`;
    `side`: of a predictive value.
    """
    found = QUESTIONS.get((read, field))
    return found if found is not None else QUESTIONS.get((f"{read} {side}", field), UNKNOWN)
