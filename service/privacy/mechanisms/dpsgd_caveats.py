"""Premises and hazards of a run of DP-SGD, by the sampling of its batches.

A hazard is a known way in which a run is less private than described.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from service.privacy.mechanisms.caveats import (
    NOISE_IS_FRESH,
    ONE_RECORD_IS_PROTECTED,
    PARTS_ARE_INDEPENDENT,
    SENSITIVITY_BOUNDED,
    MechanismHazard,
    Premise,
)
from service.privacy.mechanisms.noisy_sgd import BATCHES_OF_FIXED_SIZE

Sampling = Literal["poisson", "fixed_without_replacement", "fixed_with_replacement", "shuffled"]

BATCHES_DRAWN_WITH_REPLACEMENT: Final = Premise(
    "batches_drawn_with_replacement",
    "Every batch consists of batch_size independent uniform draws among all records, so a batch "
    "may contain a record several times. Batches are secret.",
    about="sampling",
)
EPOCHS_ARE_SHUFFLED: Final = Premise(
    "epochs_are_shuffled",
    "Every epoch visits all records once, in a uniformly random and secret order. Batches have "
    "equal size, and the last batch takes the rest. Neighbouring data sets replace one record by "
    "an empty record (zero_out), which keeps its position and adds nothing.",
    about="sampling",
)
ORDER_IS_DRAWN_ONCE: Final = Premise(
    "order_is_drawn_once",
    "All epochs visit the records in the order of the first epoch.",
    holds="yes",
    about="sampling",
)
MICROBATCHES_DOUBLE_SENSITIVITY: Final = MechanismHazard(
    code="microbatches_double_sensitivity",
    text="Clipping averages of microbatches instead of single gradients doubles the sensitivity. The "
    "effective noise_multiplier is then half of the configured value.",
    about="gradients",
)
FIXED_BATCHES_ARE_NOT_POISSON: Final = MechanismHazard(
    code="fixed_batches_are_not_poisson",
    text="Accounting for this run as Poisson sampling would overstate its privacy. In a batch of "
    "fixed size a record replaces another record, which may move the sum by twice the clipping "
    "norm. Without replacement the run reveals as much as Poisson sampling at half the "
    "noise_multiplier, and with replacement more.",
    about="sampling",
)
SHUFFLED_EPOCHS_ARE_NOT_POISSON: Final = MechanismHazard(
    code="shuffled_epochs_are_not_poisson",
    text="Accounting for this run as Poisson sampling may overstate its privacy by far. Every record "
    "is in exactly one batch of every epoch, and little noise does not hide in which batch. One "
    "epoch of 10000 batches at noise_multiplier 0.4 has a delta above 0.22 at epsilon 4. Poisson "
    "sampling has 1.2e-5.",
    about="sampling",
)


class SamplerCaveats(NamedTuple):
    """Premises and hazards that a sampling method adds to a run.

    A hazard is a known way in which a run is less private than described.
    """

    premises: tuple[Premise, ...]
    hazards: tuple[MechanismHazard, ...]


_OF_ALL: Final = (SENSITIVITY_BOUNDED, NOISE_IS_FRESH)
_TRAPS: Final = (MICROBATCHES_DOUBLE_SENSITIVITY, ONE_RECORD_IS_PROTECTED)
SAMPLERS: Final[Mapping[Sampling, SamplerCaveats]] = {
    "poisson": SamplerCaveats((), _TRAPS),  # its Poisson-sampled steps have the other caveats
    "fixed_without_replacement": SamplerCaveats(
        (*_OF_ALL, BATCHES_OF_FIXED_SIZE, PARTS_ARE_INDEPENDENT), (*_TRAPS, FIXED_BATCHES_ARE_NOT_POISSON)
    ),
    "fixed_with_replacement": SamplerCaveats(
        (*_OF_ALL, BATCHES_DRAWN_WITH_REPLACEMENT, PARTS_ARE_INDEPENDENT), (*_TRAPS, FIXED_BATCHES_ARE_NOT_POISSON)
    ),
    "shuffled": SamplerCaveats(
        (*_OF_ALL, EPOCHS_ARE_SHUFFLED, PARTS_ARE_INDEPENDENT), (*_TRAPS, SHUFFLED_EPOCHS_ARE_NOT_POISSON)
    ),
}


def steps_rounded_up(described: str, served: int) -> Premise:
    """Return the premise that a length of training was rounded up to whole batches or epochs.

    `described` is the length in the request, and `served` the number after rounding.
    """
    return Premise(
        "steps_rounded_up",
        f"{described}: the number is rounded up. The answers are for {served} batches, which reveal at least as much.",
        holds="yes",
        about="parameters",
    )
