"""What the answers rest on, and the known ways in which runs like the one described are less private than they look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from api_schemas.bounds import Assumption, Hazard
from api_schemas.mechanisms import (
    ApproximateDpMechanism,
    ComposedMechanism,
    DpsgdMechanism,
    GaussianMechanism,
    GdpMechanism,
    LaplaceMechanism,
    MechanismSpec,
    PoissonSampledMechanism,
    PureDpMechanism,
    RepeatedMechanism,
)

LARGE_SAMPLE_RATE: Final = 0.1


def _assume(text: str) -> Assumption:
    return Assumption(text=text, holds="unknown")


SENSITIVITY_BOUNDED: Final = _assume(
    "Adding or removing one record changes every noisy query by at most the sensitivity that noise_multiplier is "
    "relative to (in DP-SGD: the gradient of every single example is clipped before the sum)."
)
NOISE_IS_FRESH: Final = _assume(
    "Noise is continuous, drawn afresh for every step, and its random numbers are secret and not predictable."
)
SAMPLING_IS_POISSON: Final = _assume(
    "Every record enters every batch independently with the stated probability, and batches are secret."
)
PARAMETERS_ARE_PROVED: Final = _assume("The stated privacy parameters were proved for the mechanism that was run.")
PARTS_ARE_INDEPENDENT: Final = _assume(
    "The parts use independent randomness, and their parameters were fixed before any result was seen."
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


def assumptions(mechanism: MechanismSpec) -> tuple[Assumption, ...]:
    """What the answers about a mechanism rest on and the service cannot see."""
    nodes = {type(node) for node in _nodes(mechanism)}
    rates = sample_rates(mechanism)
    found: list[Assumption] = []
    if nodes & {GaussianMechanism, LaplaceMechanism, DpsgdMechanism}:
        found += [SENSITIVITY_BOUNDED, NOISE_IS_FRESH]
    if any(rate < 1 for rate in rates):
        found.append(SAMPLING_IS_POISSON)
    if nodes & {GdpMechanism, PureDpMechanism, ApproximateDpMechanism}:
        found.append(PARAMETERS_ARE_PROVED)
    if nodes & {RepeatedMechanism, ComposedMechanism, DpsgdMechanism}:
        found.append(PARTS_ARE_INDEPENDENT)
    return tuple(found)


def hazards(mechanism: MechanismSpec) -> tuple[Hazard, ...]:
    """Known traps that the described mechanism may have fallen into."""
    rates = sample_rates(mechanism)
    found: list[Hazard] = []
    if any(rate < 1 for rate in rates):
        found.append(POISSON_SAMPLING_ASSUMED)
    if any(LARGE_SAMPLE_RATE <= rate < 1 for rate in rates):
        found.append(LARGE_SAMPLE_RATE_STATED)
    if any(isinstance(node, DpsgdMechanism) for node in _nodes(mechanism)):
        found += [MICROBATCHES_DOUBLE_SENSITIVITY, ONE_RECORD_IS_PROTECTED]
    return tuple(found)


def sample_rates(mechanism: MechanismSpec) -> list[float]:
    """The sampling rates in a tree of mechanisms."""
    return [
        node.sample_rate for node in _nodes(mechanism) if isinstance(node, PoissonSampledMechanism | DpsgdMechanism)
    ]


def _nodes(mechanism: MechanismSpec) -> Iterator[MechanismSpec]:
    yield mechanism
    if isinstance(mechanism, PoissonSampledMechanism | RepeatedMechanism):
        yield from _nodes(mechanism.mechanism)
    elif isinstance(mechanism, ComposedMechanism):
        for part in mechanism.mechanisms:
            yield from _nodes(part)
