"""Runs that clip averages of several gradients (microbatches) instead of single gradients.

One record may reverse the clipped average of its microbatch, which moves a sum by twice the norm of the clip. The
release is that of half the noise, or of twice the sensitivity of integer noise.

An added record, or one in the place of an empty record, moves a Poisson sample by exactly that much for some data. A
replaced record moves it no farther. A batch of fixed size holds a record in the place of another one, or of an empty
one at a random place. Its pair of laws has a second movement of a batch, which the reversal contains already. There,
half the noise is an upper bound only.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from api_schemas.choices import NeighboringRelation
from api_schemas.discrete_mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    SkellamMechanism,
    StaircaseMechanism,
)
from api_schemas.mechanisms import (
    ApproximateDpMechanism,
    DpsgdMechanism,
    GaussianMechanism,
    GaussianMixtureMechanism,
    GdpMechanism,
    LaplaceMechanism,
    MechanismSpec,
    NoisySgdMechanism,
    PoissonSampledMechanism,
    PureDpMechanism,
    nodes_of,
)
from api_schemas.stated_divergences import RdpMechanism, ZcdpMechanism
from service.resources.assessments.changed_steps import Training, mapped, remade

Noisy: TypeAlias = (
    DpsgdMechanism
    | NoisySgdMechanism
    | GaussianMechanism
    | GaussianMixtureMechanism
    | LaplaceMechanism
    | StaircaseMechanism
    | DiscreteGaussianMechanism
    | DiscreteLaplaceMechanism
    | SkellamMechanism
)
"""Mechanisms whose noise may be that of clipped averages."""
STATED: Final = (GdpMechanism, PureDpMechanism, ApproximateDpMechanism, ZcdpMechanism, RdpMechanism)
ATTAINED: Final[frozenset[NeighboringRelation]] = frozenset({"add_or_remove_one", "zero_out"})


def half_the_noise(spec: MechanismSpec) -> MechanismSpec | None:
    """Return the mechanism `spec` with twice the sensitivity relative to its noise.

    The result is None if the noise of a step relative to a clipped average is unknown, or if no step states noise. So
    it is for a stated guarantee in a run without training, because the guarantee may be that of the training.
    """
    nodes = nodes_of(spec)
    if any(isinstance(node, STATED) for node in nodes) and not any(isinstance(node, Training) for node in nodes):
        return None
    made = mapped(spec, _with_half_the_noise)
    return None if made == spec else made


def relations_attained(spec: MechanismSpec) -> frozenset[NeighboringRelation]:
    """Return the relations under which the mechanism `spec` with half the noise is the true run for some data.

    There are none if noise of several kinds is in the run: a query beside training clips no averages.
    """
    runs = (node for node in nodes_of(spec) if isinstance(node, DpsgdMechanism))
    alike = len(_kinds_of_noise(spec)) <= 1
    return ATTAINED if alike and all(run.sampling == "poisson" for run in runs) else frozenset()


def _kinds_of_noise(spec: MechanismSpec) -> set[str]:
    # a sampled step is one kind, whatever its noise
    nodes = nodes_of(spec)
    sampled = [node.mechanism for node in nodes if isinstance(node, PoissonSampledMechanism)]
    alone = {node.type for node in nodes if isinstance(node, Noisy) and not any(node is each for each in sampled)}
    return alone | {"poisson_sampled" for each in sampled if isinstance(each, Noisy)}


def _with_half_the_noise(node: MechanismSpec) -> MechanismSpec | None:
    match node:
        case DpsgdMechanism(noise_multiplier=tuple() as noises):
            return remade(node, noise_multiplier=tuple(each / 2 for each in noises))
        case DpsgdMechanism(noise_multiplier=float() as noise):
            return remade(node, noise_multiplier=noise / 2)
        case GaussianMechanism(noise_multiplier=noise):
            return GaussianMechanism(type="gaussian", noise_multiplier=noise / 2)
        case LaplaceMechanism(noise_multiplier=noise):
            return LaplaceMechanism(type="laplace", noise_multiplier=noise / 2)
        case DiscreteGaussianMechanism() | DiscreteLaplaceMechanism() | SkellamMechanism():
            return type(node).model_validate({**node.model_dump(), "sensitivity": 2 * node.sensitivity})
        case PoissonSampledMechanism(sample_rate=rate, mechanism=inner):
            halved = _with_half_the_noise(inner)
            return halved and PoissonSampledMechanism(type="poisson_sampled", sample_rate=rate, mechanism=halved)
        case NoisySgdMechanism() | GaussianMixtureMechanism() | StaircaseMechanism():
            return None
        case _:
            return node
