"""Premises (conditions) of membership bounds, as sentences of answers."""

from __future__ import annotations

from typing import Final, Literal

from service.privacy.mechanisms.caveats import Premise

Known = Literal["mean", "stated", "population", "chi_square"]
"""Source of the susceptibility: none, the record, shares of all records, or a law."""

MEAN_IS_GAUSSIAN: Final = Premise(
    "mean_gradient_is_normal",
    "The mean gradient of a batch is normally distributed, with the covariance Sigma of single "
    "gradients divided by the batch size (central limit theorem). The adversary knows the law of "
    "the data, but no other record.",
    "unknown",
)
STEP_APPROXIMATED: Final = Premise(
    "step_approximated",
    "The curve of one step is Gaussian (Corollary 5.1). That holds in the limit of large "
    "dimensions and batches. No Gaussian curve bounds the curve of Theorem 5.1: "
    "/errata#gmip-corollary-5-1.",
    "no",
)
RUN_APPROXIMATED: Final = Premise(
    "run_approximated",
    "The curve of the run is the Gaussian limit of many steps (Equation 10) or the root of the "
    "sum of squares (D.3). Neither is a bound. At small false positive rates the power of a "
    "finite run can be several times larger: /errata#gmip-eq10.",
    "no",
)
_INDEPENDENCE: Final = (
    "Given the outputs of the earlier steps, every step is as private as it is alone. The other "
    "records of its batch remain as unknown as at the start."
)
_SUSCEPTIBILITIES: Final[dict[Known, Premise]] = {
    "mean": Premise(
        "susceptibility_bounded",
        "The susceptibility K = |Sigma^-1/2 (gradient - mean)|^2 of the record is at most the "
        "dimension in every step. The dimension is the mean of K, not a bound: about half of all "
        "records exceed it.",
        "no",
    ),
    "stated": Premise(
        "susceptibility_bounded",
        "The susceptibility K = |Sigma^-1/2 (gradient - mean)|^2 of the record is at most the stated "
        "number in every step.",
        "unknown",
    ),
    "population": Premise(
        "susceptibility_bounded",
        "The susceptibility K = |Sigma^-1/2 (gradient - mean)|^2 of a record is in every step at "
        "most the susceptibility of its subpopulation. The weights are the shares of the "
        "subpopulations among all records.",
        "unknown",
    ),
    "chi_square": Premise(
        "susceptibility_is_chi_square",
        "Gradients are normally distributed, so the susceptibility of a record has a chi-square law "
        "with one degree per dimension. The susceptibility is the same in every step.",
        "unknown",
    ),
}


def susceptibility(known: Known) -> Premise:
    """Return the premise that the susceptibility of a record is at most the number from which the curves follow.

    The susceptibility is the squared length of a record's whitened, centred gradient, and `known` says where the number
    comes from.
    """
    return _SUSCEPTIBILITIES[known]


def independence(steps: int, *, with_noise: bool) -> Premise:
    """Return the premise that the steps of a run are independent, so that their curves compose.

    The premise holds for one step, and is unknown for several `steps` `with_noise`. It does not hold for several steps
    without noise, which share their data.
    """
    if steps == 1:
        return Premise("steps_are_independent", _INDEPENDENCE, "yes")
    if not with_noise:
        return Premise(
            "steps_are_independent",
            f"{_INDEPENDENCE} Without noise the assumption fails: all steps show the same hidden data, "
            "and together they can reveal more.",
            "no",
        )
    return Premise("steps_are_independent", _INDEPENDENCE, "unknown")
