"""Which of two runs is harder to attack at every rate by its parameters alone, without reading a curve.

The worst case of a mechanism is monotone in what makes it more private. More noise is less noise with noise of its own
added; a record that is sampled less often is one that is sampled more often and then replaced, by lot, by what would
have been released without it; fewer steps are more steps of which the rest is not looked at: each is a post-processing,
which makes no attack easier (Blackwell 1953; Dong, Roth, Su 2022). Laplace noise of a larger scale is that of a smaller
one on a query that the record moves less, and a smaller stated parameter names a smaller class: both leave less to the
worst case. Composition keeps the order of its parts.
"""

from __future__ import annotations

from typing import Final

from api_schemas.mechanisms import (
    ApproximateDpMechanism,
    ComposedMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GdpMechanism,
    LaplaceMechanism,
    MechanismSpec,
    PoissonSampledMechanism,
    PureDpMechanism,
    RepeatedMechanism,
)
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from api_schemas.training_runs import DpsgdMechanism

THEOREM: Final = (
    "At every rate, without reading curves: every parameter is at least as private. More noise, a lower sampling rate "
    "and fewer steps are post-processing; a smaller stated parameter names a smaller class of mechanisms."
)
SAME: Final = "At every rate: both are the same run against the same attacker."


def is_at_least_as_hard(
    one: MechanismSpec, other: MechanismSpec, attacker: ThreatModelSpec, other_attacker: ThreatModelSpec
) -> bool:
    """Whether the first run surely is, at every rate, by its parameters; False where they do not say."""
    return attacker == other_attacker and isinstance(attacker, WorstCaseThreatModel) and _harder(one, other)


def _harder(one: MechanismSpec, other: MechanismSpec) -> bool:
    match one, other:
        case (GaussianMechanism() | LaplaceMechanism(), GaussianMechanism() | LaplaceMechanism()):
            return one.type == other.type and one.noise_multiplier >= other.noise_multiplier
        case (PureDpMechanism() | ExponentialMechanism(), PureDpMechanism() | ExponentialMechanism()):
            return one.type == other.type and one.epsilon <= other.epsilon
        case (ApproximateDpMechanism(), ApproximateDpMechanism()):
            return one.epsilon <= other.epsilon and one.delta <= other.delta
        case (GdpMechanism(), GdpMechanism()):
            return one.mu <= other.mu
        case (PoissonSampledMechanism(), PoissonSampledMechanism()):
            return one.sample_rate <= other.sample_rate and _harder(one.mechanism, other.mechanism)
        case (RepeatedMechanism(), RepeatedMechanism()):
            return one.steps <= other.steps and _harder(one.mechanism, other.mechanism)
        case (ComposedMechanism(), ComposedMechanism()):
            several = len(one.mechanisms) == len(other.mechanisms)
            return several and all(map(_harder, one.mechanisms, other.mechanisms))
        case (DpsgdMechanism(), DpsgdMechanism()):
            return _harder_run(one, other)
        case _:
            return False


def _harder_run(one: DpsgdMechanism, other: DpsgdMechanism) -> bool:
    """Of runs that drew batches in the same way; phase by phase, where there are phases."""
    if one.sampling != other.sampling:
        return False
    if one.sampling != "poisson":  # how long they ran, and on what, has to be the same
        rest = {"noise_multiplier": other.noise_multiplier}
        same = one.model_copy(update=rest) == other
        return same and _none_smaller(one.noise_multiplier, other.noise_multiplier)
    return (
        _none_smaller(one.noise_multiplier, other.noise_multiplier)
        and _none_smaller(other.sample_rate, one.sample_rate)
        and _none_smaller(other.steps, one.steps)
    )


def _none_smaller(one: object, other: object) -> bool:
    """Whether every number is at least the one in its place: of two numbers, or of two lists of one length."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_none_smaller, one, other))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(one, int | float) and isinstance(other, int | float) and one >= other
