"""What the answers rest on, and the known ways in which runs like the one described are less private than they look."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from api_schemas.base import Request
from api_schemas.caveats import Assumption, AssumptionCode, Hazard
from api_schemas.mechanisms import (
    ApproximateDpMechanism,
    ComposedMechanism,
    DpsgdMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GdpMechanism,
    LaplaceMechanism,
    MechanismSpec,
    MixtureMechanism,
    NoisySgdMechanism,
    PoissonSampledMechanism,
    PureDpMechanism,
    RepeatedMechanism,
    nodes_of,
)

LARGE_SAMPLE_RATE: Final = 0.1
STATED: Final[frozenset[type[Request]]] = frozenset((PureDpMechanism, ApproximateDpMechanism))
FRAMES: Final[frozenset[type[Request]]] = frozenset(
    (RepeatedMechanism, ComposedMechanism, MixtureMechanism, PoissonSampledMechanism)
)


def _assume(code: AssumptionCode, text: str) -> Assumption:
    return Assumption(code=code, text=text, holds="unknown")


SENSITIVITY_BOUNDED: Final = _assume(
    "sensitivity_bounded",
    "Adding or removing one record changes every noisy query by at most the sensitivity that noise_multiplier is "
    "relative to (in DP-SGD: the gradient of every single example is clipped before the sum).",
)
NOISE_IS_FRESH: Final = _assume(
    "noise_is_fresh",
    "Noise is continuous, drawn afresh for every step, and its random numbers are secret and not predictable.",
)
SAMPLING_IS_POISSON: Final = _assume(
    "sampling_is_poisson",
    "Every record enters every batch independently with the stated probability, and batches are secret.",
)
PARAMETERS_ARE_PROVED: Final = _assume(
    "parameters_are_proved", "The stated privacy parameters were proved for the mechanism that was run."
)
SCORES_BOUNDED: Final = _assume(
    "scores_bounded",
    "The exponential mechanism draws by weights exp(epsilon score/(2 Delta)), and no record changes the score of any "
    "outcome by more than Delta; the random numbers are secret and not predictable.",
)
MEANS_OF_CLIPPED_GRADIENTS: Final = _assume(
    "means_of_clipped_gradients",
    "Every step releases nothing but the mean of the gradients of its batch, each clipped on its own to max_grad_norm "
    "and the sum divided by batch_size, with fresh, secret Gaussian noise of noise_std on every coordinate.",
)
BATCHES_OF_FIXED_SIZE: Final = _assume(
    "batches_of_fixed_size",
    "Every batch is drawn afresh and uniformly among all sets of batch_size records, and batches are secret.",
)
PARTS_ARE_INDEPENDENT: Final = _assume(
    "parts_are_independent",
    "The parts use independent randomness, and their parameters were fixed before any result was seen.",
)
DRAW_IS_INDEPENDENT: Final = _assume(
    "draw_is_independent",
    "Which component of the mixture is run is drawn once, with the stated weights and independently of the data.",
)

POISSON_SAMPLING_ASSUMED: Final = Hazard(
    code="poisson_sampling_assumed",
    text="Batches from shuffled epochs or of fixed size are not covered: no tight analysis of them is known, and the "
    "attack can be stronger than answered here.",
)
MICROBATCHES_DOUBLE_SENSITIVITY: Final = Hazard(
    code="microbatches_double_sensitivity",
    text="Clipping averages of microbatches instead of single examples doubles the sensitivity: noise_multiplier is "
    "then half of what was configured.",
)
ONE_RECORD_IS_PROTECTED: Final = Hazard(
    code="one_record_is_protected",
    text="The answers hold for one record. Someone who contributed several records is protected less.",
)
LARGE_SAMPLE_RATE_STATED: Final = Hazard(
    code="large_sample_rate",
    text=f"A sample_rate of {LARGE_SAMPLE_RATE:g} or more is unusual in training: check that it is the batch size over "
    "the number of records in the whole data set.",
)
STATED_PARAMETERS_ALONE: Final = Hazard(
    code="stated_parameters_alone",
    text="A stated epsilon and delta say the least about a release: every answer is for the worst mechanism that has "
    "them. The run itself (its noise, sampling rate and steps, as dpsgd or gaussian) gives far better numbers.",
)


@dataclass(frozen=True, slots=True)
class Caveats:
    """What stands beside the answers about a mechanism."""

    assumptions: tuple[Assumption, ...]
    """What the answers rest on and the service cannot see."""
    hazards: tuple[Hazard, ...]
    """Known traps that the described mechanism may have fallen into."""


def caveats(mechanism: MechanismSpec) -> Caveats:
    """The caveats of the answers about a mechanism."""
    nodes = nodes_of(mechanism)
    kinds = frozenset(map(type, nodes))
    rates = [node.sample_rate for node in nodes if isinstance(node, PoissonSampledMechanism | DpsgdMechanism)]
    return _caveats(kinds, any(rate < 1 for rate in rates), any(LARGE_SAMPLE_RATE <= rate < 1 for rate in rates))


@cache  # of what is finite: sets of mechanism types
def _caveats(kinds: frozenset[type[Request]], sampled: bool, often: bool) -> Caveats:
    rests: list[Assumption] = []
    if kinds & {GaussianMechanism, LaplaceMechanism, DpsgdMechanism}:
        rests += [SENSITIVITY_BOUNDED, NOISE_IS_FRESH]
    if sampled:
        rests.append(SAMPLING_IS_POISSON)
    if NoisySgdMechanism in kinds:
        rests += [MEANS_OF_CLIPPED_GRADIENTS, BATCHES_OF_FIXED_SIZE]
    if kinds & {GdpMechanism, PureDpMechanism, ApproximateDpMechanism}:
        rests.append(PARAMETERS_ARE_PROVED)
    if ExponentialMechanism in kinds:
        rests.append(SCORES_BOUNDED)
    if kinds & {RepeatedMechanism, ComposedMechanism, DpsgdMechanism, NoisySgdMechanism}:
        rests.append(PARTS_ARE_INDEPENDENT)
    if MixtureMechanism in kinds:
        rests.append(DRAW_IS_INDEPENDENT)
    return Caveats(tuple(rests), _traps(kinds, sampled, often))


def _traps(kinds: frozenset[type[Request]], sampled: bool, often: bool) -> tuple[Hazard, ...]:
    traps: list[Hazard] = []
    if kinds & STATED and kinds <= STATED | FRAMES:
        traps.append(STATED_PARAMETERS_ALONE)
    if sampled:
        traps.append(POISSON_SAMPLING_ASSUMED)
    if often:
        traps.append(LARGE_SAMPLE_RATE_STATED)
    if DpsgdMechanism in kinds:
        traps.append(MICROBATCHES_DOUBLE_SENSITIVITY)
    if kinds & {DpsgdMechanism, NoisySgdMechanism}:
        traps.append(ONE_RECORD_IS_PROTECTED)
    return tuple(traps)
