"""DP-SGD runs: noise, batch sampling and length, each of which may change from phase to phase.

A rate may be sent as two sizes, and a length as epochs. Derived values are filled in and repeated by the response. A
description from a response therefore means the same when it is sent again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import AliasChoices, Discriminator, Field, Tag, model_validator

from api_schemas.base import Request, field_error, is_none, named_schema
from api_schemas.scalar_types import LARGEST_LIST, LARGEST_RECORDS, LARGEST_STEPS

Number = TypeVar("Number", int, float)
Sampling = Annotated[
    Literal["poisson", "fixed_without_replacement", "fixed_with_replacement", "shuffled"],
    named_schema(
        "Sampling",
        "Sampling of the batches. poisson: every record enters every batch independently. "
        "fixed_without_replacement: every batch is a new uniform set of batch_size different records. "
        "fixed_with_replacement: every batch consists of batch_size independent uniform draws. shuffled: an "
        "epoch visits all records once in random order, divided into batches.",
        examples=["shuffled"],
    ),
]


def _is_poisson(value: object) -> bool:
    return value == "poisson"


def _kind(value: object) -> str:
    return "list" if isinstance(value, list | tuple) else "number"


LENGTHS: Final = Field(min_length=1, max_length=LARGEST_LIST, fail_fast=True)
_Noise = Annotated[float, Field(ge=1e-4, le=1e15)]
_Rate = Annotated[float, Field(gt=0, le=1)]
_Count = Annotated[int, Field(ge=1, le=LARGEST_STEPS)]
NoiseMultipliers = Annotated[
    Annotated[_Noise, Tag("number")] | Annotated[tuple[_Noise, ...], LENGTHS, Tag("list")],
    Discriminator(_kind),
    Field(
        validation_alias=AliasChoices("noise_multiplier", "sigma", "noise"),
        description="Standard deviation of the Gaussian noise on the batch sum, divided by the clipping norm of "
        "one record. A list has one entry for each phase.",
        examples=[1.0],
    ),
]
SampleRates = Annotated[
    Annotated[_Rate, Tag("number")] | Annotated[tuple[_Rate, ...], LENGTHS, Tag("list")],
    Discriminator(_kind),
]
OptionalSampleRates = Annotated[
    SampleRates | None,
    Field(
        validation_alias=AliasChoices("sample_rate", "sampling_probability", "sampling_prob", "sampling_rate", "q"),
        description="Sampling rate of a batch. Under Poisson sampling, the probability of each record; "
        "otherwise batch_size / dataset_size. A list has one entry for each phase.",
        examples=[0.01],
        exclude_if=is_none,
    ),
]
StepCounts = Annotated[
    Annotated[_Count, Tag("number")] | Annotated[tuple[_Count, ...], LENGTHS, Tag("list")],
    Discriminator(_kind),
]
OptionalStepCounts = Annotated[
    StepCounts | None,
    Field(
        validation_alias=AliasChoices("steps", "num_steps", "count", "iterations", "num_compositions", "ncomp"),
        description="Number of batches. A list has one entry for each phase. `epochs` may replace this field.",
        examples=[1000],
        exclude_if=is_none,
    ),
]
OptionalBatchSize = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_RECORDS)] | None,
    Field(
        validation_alias=AliasChoices("batch_size", "n"),
        description="Number of records in a batch, in place of the rate (with `dataset_size`). Under Poisson "
        "sampling, the mean number.",
        examples=[480],
        exclude_if=is_none,
    ),
]
OptionalDatasetSize = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_RECORDS)] | None,
    Field(
        validation_alias=AliasChoices("dataset_size", "num_examples", "n_train"),
        description="Number of records in the data set. If neighbours differ in size, the size of the larger data set.",
        examples=[48_000],
        exclude_if=is_none,
    ),
]
OptionalEpochs = Annotated[
    Annotated[float, Field(gt=0, le=LARGEST_STEPS)] | None,
    Field(
        validation_alias=AliasChoices("epochs", "num_epochs"),
        description="Number of passes over the data set, in place of `steps`. An epoch has dataset_size / "
        "batch_size batches, and the total is rounded up.",
        examples=[10.0],
        exclude_if=is_none,
    ),
]
OptionalReshuffled = Annotated[
    bool | None,
    Field(
        description="Whether every epoch has a new order of the records, for shuffled batches. Default: true.",
        examples=[True],
        exclude_if=is_none,
    ),
]

AGREEMENT: Final = 1e-9
"""Relative: a rate and two sizes that are sent together mean the same."""
NEARLY: Final = Fraction(2) ** -50
"""Relative: a number of batches that follows from a rate, which was rounded to a double, and is so near to a whole one
is that."""


class DpsgdMechanism(Request):
    """DP-SGD: `steps` noisy sums of clipped gradients over batches, with every intermediate model released.

    Set `sampling` to the scheme that the training code used. Most training code shuffles the data or draws batches of
    fixed size. Equal noise then gives less privacy than under Poisson sampling, the default. Lists in
    `noise_multiplier`, `sample_rate` and `steps` have one entry for each phase. A single number applies to all phases.
    `batch_size` and `dataset_size` may replace the rate, and `epochs` may replace the steps. With `shuffled` batches,
    neighbours differ by a record that is replaced by an empty record (`zero_out`).
    """

    type: Literal["dpsgd"]
    noise_multiplier: NoiseMultipliers
    sampling: Annotated[Sampling, Field(exclude_if=_is_poisson)] = "poisson"
    sample_rate: OptionalSampleRates = None
    batch_size: OptionalBatchSize = None
    dataset_size: OptionalDatasetSize = None
    steps: OptionalStepCounts = None
    epochs: OptionalEpochs = None
    reshuffled: OptionalReshuffled = None

    @model_validator(mode="after")
    def _settled(self) -> Self:
        held = vars(self)
        held["sample_rate"] = self._settled_rate()
        self._check_lengths()
        held["steps"] = self._settled_steps()
        self._check_lengths()
        if self.sampling == "shuffled":
            held["reshuffled"] = self.reshuffled is not False
            if not held["reshuffled"] and isinstance(self.sample_rate, tuple):
                raise field_error("sample_rate", "Must be one number if all epochs have the order of the first epoch.")
        elif self.reshuffled is not None:
            raise field_error("reshuffled", "Send reshuffled only for the sampling shuffled.")
        return self

    @property
    def phases(self) -> int:
        """Number of phases of the run: the length of the lists, or 1 without lists."""
        return max(map(len, self._lists().values()), default=1)

    @property
    def total_steps(self) -> int:
        """Number of steps (batches) of all phases."""
        steps = self.steps if self.steps is not None else 0
        return sum(steps) if isinstance(steps, tuple) else steps * self.phases

    def _lists(self) -> dict[str, tuple[Any, ...]]:
        known = {"noise_multiplier": self.noise_multiplier, "sample_rate": self.sample_rate, "steps": self.steps}
        return {name: value for name, value in known.items() if isinstance(value, tuple)}

    def _check_lengths(self) -> None:
        lengths = {name: len(values) for name, values in self._lists().items()}
        for name, length in lengths.items():
            longest = max(lengths.values())
            if length != longest:
                sentence = f"All lists must have one length: this one has {length} entries, another one {longest}."
                raise field_error(name, sentence)

    def _settled_rate(self) -> float | tuple[float, ...]:
        """Return the sampling rate of the request, or the rate that follows from its sizes."""
        batch, records, sent = self.batch_size, self.dataset_size, self.sample_rate
        if batch is None or records is None:
            missing = "batch_size" if batch is None else "dataset_size"
            if batch is not records:
                raise field_error(missing, "Required: send batch_size and dataset_size together.")
            if self.sampling == "fixed_with_replacement":
                raise field_error(missing, "Required: batches drawn with replacement need both sizes.")
            if sent is None:
                raise field_error(
                    "sample_rate", "Required: sample_rate, numbers in (0, 1], or batch_size and dataset_size."
                )
            return sent
        if batch > records:
            raise field_error("batch_size", "batch_size must be at most dataset_size.")
        known = batch / records
        if isinstance(sent, tuple):
            raise field_error("sample_rate", "Must be absent or one number if batch_size and dataset_size are sent.")
        if sent is not None and abs(sent - known) > AGREEMENT * known:
            raise field_error(
                "sample_rate",
                "Must be equal to batch_size/dataset_size if all three are sent. Send only the sizes or only the rate.",
            )
        return known if sent is None else sent

    def _settled_steps(self) -> int | tuple[int, ...]:
        """Return the number of steps of the request, or the steps that follow from its epochs."""
        sent = self.steps
        if self.epochs is None:
            if sent is None:
                raise field_error("steps", "Required: steps, integers in [1, 1e+12], or epochs.")
            return sent
        rates = self.sample_rate
        each = [_batches(self, rate, self.epochs) for rate in listed(rates or 1.0)]
        if max(each) > LARGEST_STEPS:
            raise field_error("epochs", f"All steps of a phase together may be at most {LARGEST_STEPS:.0e}.")
        known = tuple(each) if isinstance(rates, tuple) else each[0]
        if sent is not None and sent != known:
            raise field_error("epochs", _contradiction_text(sent, known))
        return known


def _contradiction_text(steps: int | tuple[int, ...], known: int | tuple[int, ...]) -> str:
    if isinstance(known, tuple) or isinstance(steps, tuple):
        return "These epochs are not the steps that are sent as well (one step is one batch): send only one of them."
    return f"These epochs are {known} steps (one step is one batch), and steps is {steps}: send only one of them."


def listed(value: Number | tuple[Number, ...]) -> tuple[Number, ...]:
    """Return a list as a tuple, and a single number as a tuple of one number."""
    return value if isinstance(value, tuple) else (value,)


def _batches(run: DpsgdMechanism, rate: float, epochs: float) -> int:
    """Return the number of batches in `epochs` epochs at the sampling rate `rate`, rounded up.

    Shuffled epochs consist of complete batches.

    Numbers have their decimal value: 0.1 is one tenth, not the nearest double.
    """
    if run.batch_size is not None and run.dataset_size is not None:
        each = Fraction(run.dataset_size, run.batch_size)
    else:
        each = 1 / Fraction(repr(rate))
    if run.sampling == "shuffled":
        return _whole_steps(each) * math.ceil(epochs)
    return _whole_steps(each * Fraction(repr(epochs)))


def _whole_steps(number: Fraction) -> int:
    nearest = max(round(number), 1)
    return nearest if abs(number - nearest) <= NEARLY * number else math.ceil(number)


def phases_of(runs: Iterable[object]) -> int:
    """Return the number of entries in all lists of these mechanisms' fields that may change from phase to phase."""
    return sum(run.phases for run in runs if isinstance(run, DpsgdMechanism))
