"""Mechanisms: what a training run or a release did to the data. A tree, discriminated on `type`."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple

from pydantic import AliasChoices, Field

from api_schemas.base import Request
from api_schemas.quantities import (
    Delta,
    Epsilon,
    LaplaceNoiseMultiplier,
    Mu,
    NoiseMultiplier,
    SampleRate,
    Steps,
)

LARGEST_DEPTH: Final = 16
LARGEST_COMPONENTS: Final = 256


class GaussianMechanism(Request):
    """A query of sensitivity 1 with Gaussian noise of standard deviation `noise_multiplier`."""

    type: Literal["gaussian"]
    noise_multiplier: NoiseMultiplier


class LaplaceMechanism(Request):
    """A query of sensitivity 1 with Laplace noise of scale `noise_multiplier`."""

    type: Literal["laplace"]
    noise_multiplier: LaplaceNoiseMultiplier


class GdpMechanism(Request):
    """Anything that is mu-Gaussian differentially private: no worse than telling N(0, 1) from N(mu, 1)."""

    type: Literal["gdp"]
    mu: Mu


class PureDpMechanism(Request):
    """Anything that is epsilon-differentially private."""

    type: Literal["pure_dp"]
    epsilon: Epsilon


class ApproximateDpMechanism(Request):
    """Anything that is (epsilon, delta)-differentially private."""

    type: Literal["approximate_dp"]
    epsilon: Epsilon
    delta: Delta


class ExponentialMechanism(Request):
    """One outcome drawn with probability proportional to exp(epsilon score / (2 Delta)), where one record moves no
    score by more than Delta."""

    type: Literal["exponential"]
    epsilon: Epsilon


class PoissonSampledMechanism(Request):
    """A mechanism run on a random part of the data: each record enters independently with probability `sample_rate`."""

    type: Literal["poisson_sampled"]
    sample_rate: SampleRate
    mechanism: InnerMechanism


class RepeatedMechanism(Request):
    """The same mechanism applied `steps` times to the same data, all results released."""

    type: Literal["repeated"]
    mechanism: InnerMechanism
    steps: Steps


class ComposedMechanism(Request):
    """Several mechanisms applied to the same data, all results released."""

    type: Literal["composed"]
    mechanisms: Annotated[
        tuple[MechanismSpec, ...],
        Field(
            min_length=1,
            max_length=LARGEST_COMPONENTS,
            validation_alias=AliasChoices("mechanisms", "events"),
            description="The mechanisms, in any order.",
        ),
    ]


class DpsgdMechanism(Request):
    """DP-SGD: `steps` steps of a Poisson-sampled Gaussian mechanism, every model on the way released."""

    type: Literal["dpsgd"]
    noise_multiplier: NoiseMultiplier
    sample_rate: SampleRate
    steps: Steps


MechanismSpec = Annotated[
    GaussianMechanism
    | LaplaceMechanism
    | GdpMechanism
    | PureDpMechanism
    | ApproximateDpMechanism
    | ExponentialMechanism
    | PoissonSampledMechanism
    | RepeatedMechanism
    | ComposedMechanism
    | DpsgdMechanism,
    Field(discriminator="type", description="The mechanism that touched the data."),
]
InnerMechanism = Annotated[
    MechanismSpec,
    Field(validation_alias=AliasChoices("mechanism", "event"), description="The mechanism inside."),
]

for _model in (PoissonSampledMechanism, RepeatedMechanism, ComposedMechanism):
    _model.model_rebuild()


class TreeSize(NamedTuple):
    """Size of a mechanism tree: `components` counts its leaves, `steps` the applications of all leaves."""

    depth: int
    components: int
    steps: int


def tree_size(mechanism: MechanismSpec) -> TreeSize:
    """The size of a tree, without unrolling it; integers of Python do not overflow."""
    if isinstance(mechanism, DpsgdMechanism):
        return TreeSize(1, 1, mechanism.steps)
    if isinstance(mechanism, RepeatedMechanism):
        depth, components, steps = tree_size(mechanism.mechanism)
        return TreeSize(depth + 1, components, steps * mechanism.steps)
    if isinstance(mechanism, PoissonSampledMechanism):
        depth, components, steps = tree_size(mechanism.mechanism)
        return TreeSize(depth + 1, components, steps)
    if isinstance(mechanism, ComposedMechanism):
        sizes = [tree_size(part) for part in mechanism.mechanisms]
        return TreeSize(
            1 + max(size.depth for size in sizes),
            sum(size.components for size in sizes),
            sum(size.steps for size in sizes),
        )
    return TreeSize(1, 1, 1)
