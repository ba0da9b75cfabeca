"""Table of all hazards (ways in which a run is less private than it appears): title, remedy, and effect on numbers."""

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


POSSIBLE: Final = "The request does not settle whether this hazard is present. No number and no verdict changes."
NO_BOUND: Final = (
    "The privacy of a run with this hazard is not known. No number here is a bound, and no limit is decided."
)
_COUNTED: Final = "The numbers include this hazard: they describe the run as it was sent."

HAZARDS: Final[Mapping[HazardCode, HazardRow]] = {
    "columns_may_be_exchanged": HazardRow(
        "Noise and sampling rate may have been exchanged.",
        "Exchange noise_multiplier and sample_rate if their order was wrong. Otherwise add more noise.",
        "none",
        "The run as described is less private than the run with both values exchanged, so its bounds hold for both "
        "runs.",
    ),
    "delta_not_small": HazardRow(
        "Delta is too large for this many records.",
        "Send a delta well below 1 divided by the number of records.",
        "limits_undecided",
        "A limit on epsilon at a delta of 1/dataset_size or more is not decided, because such a delta allows the "
        "publication of a record.",
    ),
    "epsilon_says_little": HazardRow(
        "Epsilon is so large that it guarantees almost nothing.",
        "Add more noise, or calibrate the noise to an acceptable risk.",
        "none",
        "The number is correct. The limits of the policy state what is acceptable.",
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
        "Every number assumes batches with the records of all backward passes.",
    ),
    "large_sample_rate": HazardRow(
        "The sampling rate is unusually large.",
        "Check that the rate is the batch size divided by the number of all records. Smaller batches protect better.",
        "none",
        "The numbers hold for the large rate. A smaller rate reveals no more.",
    ),
    "microbatches_double_sensitivity": HazardRow(
        "Averages of several gradients were clipped instead of single gradients.",
        "Send microbatch_size: 1 if every gradient is clipped on its own.",
        "numbers_changed",
        "Every number assumes half the noise multiplier.",
    ),
    "one_point_hides_the_curve": HazardRow(
        "One epsilon suggests attacks that do not exist.",
        "Quote mu or the power together with epsilon.",
        "none",
        "Epsilon alone is on the safe side: attacks are weaker than epsilon suggests.",
    ),
    "one_record_is_protected": HazardRow(
        "The numbers protect one record, and a person may have several records.",
        "Send privacy_unit and records if a person may have several records.",
        "none",
        "The verdict is about one record, which is the privacy unit of the request.",
    ),
    "only_honest_reports": HazardRow(
        "Only honest reports hide a person.",
        "Send as `reports` the number of reports of persons who follow the randomiser.",
        "none",
        "The numbers hold for the stated number of reports. The assumption one_randomizer covers this hazard.",
    ),
    "poisson_sampling_assumed": HazardRow(
        "Batches may not have been drawn by Poisson sampling.",
        "Attest sampling_is_poisson, or describe the run with the actual `sampling`.",
        "no_bound",
        NO_BOUND,
    ),
    "records_not_capped": HazardRow(
        "The number of records of one privacy unit is not limited.",
        "Limit the records of each unit before training, and send the limit as `records`.",
        "limits_undecided",
        "The numbers protect one record. No limit about a whole privacy unit is decided.",
    ),
    "relaxed_number_alone": HazardRow(
        "Numbers for a weaker attacker may be quoted alone.",
        "Quote these numbers together with the worst case and their assumptions.",
        "none",
        "The response also contains the worst case. A limit without its own attacker uses the worst case.",
    ),
    "reports_may_repeat": HazardRow(
        "A person may send several fresh reports.",
        "Count all reports of a person, or send the same random report again.",
        "none",
        _COUNTED,
    ),
    "sample_rate_inconsistent": HazardRow(
        "The sampling rate contradicts the sizes of batches and data.",
        "Describe the run with batch_size and dataset_size in place of sample_rate.",
        "numbers_changed",
        "Every number uses the larger of the two rates.",
    ),
    "sampler_not_recorded": HazardRow(
        "The library did not record how batches were drawn.",
        "Attest sampling_is_poisson, or describe the run with the actual `sampling`.",
        "none",
        "The assumption sampling_is_poisson covers this hazard.",
    ),
    "shuffled_epochs_are_not_poisson": HazardRow(
        "Shuffled epochs are less private than Poisson samples.",
        "Quote these numbers, not those of Poisson sampling.",
        "none",
        _COUNTED,
    ),
    "stated_divergences_alone": HazardRow(
        "Only bounds of Renyi divergences are known, and not the run behind them.",
        "Describe the run itself.",
        "none",
        "The numbers are the worst case for the stated bounds. The assumption parameters_are_proved covers this "
        "hazard.",
    ),
    "stated_parameters_alone": HazardRow(
        "Only stated parameters are known, and not the run behind them.",
        "Describe the run itself.",
        "none",
        "The numbers are the worst case for the stated parameters. The assumption parameters_are_proved covers "
        "this hazard.",
    ),
    "tuning_not_accounted": HazardRow(
        "Other runs on the same data determined the settings.",
        "Count all runs, or tune on other data.",
        "numbers_changed",
        "Every number covers the choice of the best run, by any score of its result. The assumption score_is_covered "
        "covers scores that read more.",
    ),
    "variants_are_not_private": HazardRow(
        "Several published variants of the technique are not private.",
        "Compare the code with the stated noise, and release bits only.",
        "none",
        "The assumption bits_only covers this hazard.",
    ),
}
"""Hazards by code. The effect `none` of a hazard that may be present is a claim: `why` gives its reason."""
