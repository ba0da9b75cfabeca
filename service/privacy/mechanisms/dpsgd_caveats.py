"""Premises and hazards of a run of DP-SGD, by the sampling of its batches."""

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
    "Every batch is batch_size draws, each afresh and uniform among all records, so that a record may be in it several "
    "times, and batches are secret.",
    about="sampling",
)
EPOCHS_ARE_SHUFFLED: Final = Premise(
    "epochs_are_shuffled",
    "Every epoch visits all records once, in an order that is uniform and secret, and takes them in batches of equal "
    "size, the last one the rest. Neighbours differ by a record that is replaced by an empty one (zero_out), which "
    "takes its place in a batch and adds nothing to it.",
    about="sampling",
)
ORDER_IS_DRAWN_ONCE: Final = Premise(
    "order_is_drawn_once",
    "All epochs visit the records in the order of the first.",
    holds="yes",
    about="sampling",
)
MICROBATCHES_DOUBLE_SENSITIVITY: Final = MechanismHazard(
    code="microbatches_double_sensitivity",
    text="Clipping averages of microbatches instead of single examples doubles the sensitivity: noise_multiplier is "
    "then half of what was configured.",
    about="gradients",
)
FIXED_BATCHES_ARE_NOT_POISSON: Final = MechanismHazard(
    code="fixed_batches_are_not_poisson",
    text="Accounted for as Poisson sampling this run would look more private than it is: in a batch of fixed size a "
    "record takes the place of another one, which may move the sum by twice the clip norm. Without replacement it "
    "reveals as much as Poisson sampling at half the noise_multiplier, with replacement more.",
    about="sampling",
)
SHUFFLED_EPOCHS_ARE_NOT_POISSON: Final = MechanismHazard(
    code="shuffled_epochs_are_not_poisson",
    text="Accounted for as Poisson sampling this run may look far more private than it is: every record is surely in "
    "one batch of every epoch, and little noise does not hide in which. One epoch of 10000 batches at noise_multiplier "
    "0.4 has a delta above 0.22 at epsilon 4, where Poisson sampling has 1.2e-5.",
    about="sampling",
)


class SamplerCaveats(NamedTuple):
    """Premises and hazards that a sampling method adds to a run."""

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
    """Return the premise that a length of training was rounded up to whole batches or epochs."""
    return Premise(
        "steps_rounded_up",
        f"{described}: rounded up to whole ones, the answers are for {served} batches, which reveal no less.",
        holds="yes",
        about="parameters",
    )
