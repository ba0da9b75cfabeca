"""Runs that the checker covers, as its steps. The numeric core takes no part in this conversion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from api_schemas.mechanisms import (
    ComposedMechanism,
    GaussianMechanism,
    GaussianMixtureMechanism,
    MechanismSpec,
    PoissonSampledMechanism,
    RepeatedMechanism,
)
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from api_schemas.training_runs import DpsgdMechanism, listed
from privacy_bounds.checker import Step, sampled_step
from service.privacy.errors import UnsupportedCombination

MECHANISMS: Final = (
    "gaussian",
    "gaussian_mixture",
    "poisson_sampled of gaussian",
    "dpsgd with sampling poisson",
    "repeated and composed of these",
)
LARGEST_KINDS: Final = 32
"""Largest number of different steps of a run. Each takes about 0.1 seconds."""


def steps_of(mechanism: MechanismSpec, threat_model: ThreatModelSpec) -> list[Step]:
    """Return the steps of `mechanism` between the neighbours of `threat_model`, equal ones counted together.

    Raises UnsupportedCombination with a pointer to a part that the checker does not cover.
    """
    if not isinstance(threat_model, WorstCaseThreatModel) or (threat_model.records or 1) > 1:
        raise unsupported(
            "/threat_model",
            "this threat model",
            "the checker proves numbers for one record.",
            ("worst_case of one record",),
        )
    counted: dict[Step, int] = {}
    for step, count in _steps_with_counts(mechanism, 1, threat_model.neighboring_relation == "replace_one"):
        counted[step] = counted.get(step, 0) + count
    if len(counted) > LARGEST_KINDS:
        raise unsupported(
            "/mechanism",
            f"a run of {len(counted)} different steps",
            "a proof takes time for each of them.",
            (f"up to {LARGEST_KINDS} different steps",),
        )
    return [replace(step, count=count) for step, count in counted.items()]


def _steps_with_counts(mechanism: MechanismSpec, count: int, replaced: bool) -> Iterator[tuple[Step, int]]:
    match mechanism:
        case GaussianMechanism():
            yield sampled_step(mechanism.noise_multiplier, 1.0, mirrored=replaced), count
        case GaussianMixtureMechanism() if not replaced:
            weights = tuple(map(Fraction, mechanism.weights))
            total = sum(weights)
            shifts = tuple(map(Fraction, mechanism.shifts))
            yield Step(Fraction(mechanism.noise_multiplier), shifts, tuple(w / total for w in weights)), count
        case PoissonSampledMechanism(mechanism=GaussianMechanism() as inner):
            yield sampled_step(inner.noise_multiplier, mechanism.sample_rate, mirrored=replaced), count
        case RepeatedMechanism():
            yield from _steps_with_counts(mechanism.mechanism, count * mechanism.steps, replaced)
        case ComposedMechanism():
            for part in mechanism.mechanisms:
                yield from _steps_with_counts(part, count, replaced)
        case DpsgdMechanism(sampling="poisson"):
            phases = mechanism.phases
            columns = (
                listed(each or 1) for each in (mechanism.noise_multiplier, mechanism.sample_rate, mechanism.steps)
            )
            for noise, rate, steps in zip(*(each * (phases // len(each)) for each in columns), strict=True):
                yield sampled_step(noise, rate, mirrored=replaced), count * int(steps)
        case _:
            relation = " under replace_one" if replaced else ""
            raise unsupported(
                "/mechanism", mechanism.type + relation, "the checker has no law of its loss.", MECHANISMS
            )


def unsupported(pointer: str, requested: str, reason: str, supported: tuple[str, ...]) -> UnsupportedCombination:
    """Return the error for a part of a request, at `pointer`, that the checker does not cover.

    `requested` describes the part, `reason` states why it is not covered, and `supported` lists the alternatives.
    """
    error = UnsupportedCombination(pointer.removeprefix("/"), requested, reason, supported)
    error.pointer = pointer
    return error
