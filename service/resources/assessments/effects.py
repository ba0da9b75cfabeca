"""Table of all hazards: title, remedy, and effect on numbers and verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, final

from api_schemas.assumptions_and_hazards import HazardCode

Effect = Literal["none", "numbers_changed", "limits_undecided", "no_bound"]


@final
class HazardRow(NamedTuple):
    """Text of a hazard. `effect` applies if the hazard is present; `why` explains the effect, or its absence."""

    title: str
    remedy: str
    effect: Effect
    why: str


POSSIBLE: Final = "Nothing that was sent says that this is so: it changes no number and no verdict."
NO_BOUND: Final = (
    "How private the run is with this hazard is not known: no number here bounds anything, and no limit is decided."
)
_COUNTED: Final = "The numbers are those of the run as it was described, with this in it."

HAZARDS: Final[Mapping[HazardCode, HazardRow]] = {
    "columns_may_be_exchanged": HazardRow(
        "Noise and sampling rate may have been exchanged.",
        "Exchange noise_multiplier and sample_rate if so; else take more noise.",
        "none",
        "The run as described is the less private one of both: its bounds hold for the other one, too.",
    ),
    "delta_not_small": HazardRow(
        "Delta is too large for this many records.",
        "Ask for epsilon at a delta well below one in the number of records.",
        "limits_undecided",
        "A limit on epsilon at a delta of 1/dataset_size or more is not decided: it would allow the publication of a "
        "record.",
    ),
    "epsilon_says_little": HazardRow(
        "Epsilon is so large that it promises next to nothing.",
        "More noise; calibrate to the risk that is acceptable.",
        "none",
        "The number is right, and the limits of the policy say what is acceptable.",
    ),
    "fixed_batches_are_not_poisson": HazardRow(
        "Batches of a fixed size are less private than Poisson samples.",
        "Quote these numbers, not those of Poisson sampling.",
        "none",
        _COUNTED,
    ),
    "gradient_accumulation_counted": HazardRow(
        "Steps may have been counted by backward passes instead of updates.",
        "Send batch_size and dataset_size in the context: the records between two updates, and all records.",
        "numbers_changed",
        "Every number is of batches that hold the records of all backward passes.",
    ),
    "large_sample_rate": HazardRow(
        "The sampling rate is unusually large.",
        "Check that it is the batch size over all records. Smaller batches hide more.",
        "none",
        "The numbers are those of the large rate: a smaller one reveals no more.",
    ),
    "microbatches_double_sensitivity": HazardRow(
        "Averages of several gradients were clipped instead of single ones.",
        "Send microbatch_size: 1 if every gradient is clipped on its own.",
        "numbers_changed",
        "Every number is of a run with half the noise multiplier.",
    ),
    "one_point_hides_the_curve": HazardRow(
        "One epsilon suggests attacks that do not exist.",
        "Quote mu or the power beside epsilon.",
        "none",
        "Epsilon errs to the safe side: the other numbers are smaller than it suggests.",
    ),
    "one_record_is_protected": HazardRow(
        "The numbers protect one record, and somebody may have several.",
        "Send privacy_unit and records where somebody may have several records.",
        "none",
        "The verdict is about one record, which is the privacy unit that was sent.",
    ),
    "poisson_sampling_assumed": HazardRow(
        "Batches may not have been drawn by Poisson sampling.",
        "Attest sampling_is_poisson, or describe the run with the `sampling` that was used.",
        "no_bound",
        NO_BOUND,
    ),
    "records_not_capped": HazardRow(
        "Nothing says how many records one privacy unit has.",
        "Cap them before training, and send the cap as `records`.",
        "limits_undecided",
        "The numbers protect one record. A limit on what happens to a whole privacy unit is not decided.",
    ),
    "relaxed_number_alone": HazardRow(
        "Numbers against a weaker attacker may be quoted alone.",
        "Quote them beside the worst case, with their assumptions.",
        "none",
        "The worst case stands beside them, and a limit without an attacker of its own is held against it.",
    ),
    "sample_rate_inconsistent": HazardRow(
        "The sampling rate contradicts the sizes of batches and data.",
        "Describe the run with batch_size and dataset_size in place of sample_rate.",
        "numbers_changed",
        "Every number is of the larger one of both rates.",
    ),
    "sampler_not_recorded": HazardRow(
        "The library did not record how batches were drawn.",
        "Attest sampling_is_poisson, or describe the run with the `sampling` that was used.",
        "none",
        "The assumption sampling_is_poisson stands for it.",
    ),
    "shuffled_epochs_are_not_poisson": HazardRow(
        "Shuffled epochs are less private than Poisson samples.",
        "Quote these numbers, not those of Poisson sampling.",
        "none",
        _COUNTED,
    ),
    "stated_parameters_alone": HazardRow(
        "Only stated parameters are known, not the run behind them.",
        "Describe the run itself.",
        "none",
        "The numbers are the worst that the stated parameters allow; the assumption parameters_are_proved covers them.",
    ),
    "tuning_not_accounted": HazardRow(
        "Other runs on the same data chose the settings.",
        "Count all runs, or tune on other data.",
        "numbers_changed",
        "Every number is of all runs together, as if all their results had been released.",
    ),
}
"""Hazards by code. The effect `none` of a hazard that may be present is a claim: `why` gives its reason."""
