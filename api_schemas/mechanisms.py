"""Mechanisms: what a training run or a release did with the data. A mechanism is a tree, discriminated by `type`."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.base import Request, field_error, named_schema
from api_schemas.imported import ImportedMechanism
from api_schemas.scalar_types import (
    BatchSize,
    DatasetSize,
    Delta,
    Dimension,
    Epsilon,
    LaplaceNoiseMultiplier,
    Mu,
    NoiseMultiplier,
    NoiseStd,
    OptionalMaxGradNorm,
    OptionalSusceptibility,
    SampleRate,
    Shift,
    ShiftWeight,
    Steps,
    Weight,
)
from api_schemas.training_runs import DpsgdMechanism

LARGEST_DEPTH: Final = 16
LARGEST_COMPONENTS: Final = 256
WEIGHT_SUM_TOLERANCE: Final = 1e-12


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


class GaussianMixtureMechanism(Request):
    """Gaussian noise of standard deviation `noise_multiplier` on a query that the record shifts by one of `shifts`,
    drawn anew in every step with `weights`: without the record N(0), with it sum w_i N(s_i). Under `add_or_remove_one`
    alone, for one record."""

    type: Literal["gaussian_mixture"]
    noise_multiplier: NoiseMultiplier
    shifts: Annotated[
        tuple[Shift, ...],
        Field(
            min_length=1,
            max_length=LARGEST_COMPONENTS,
            validation_alias=AliasChoices("shifts", "sensitivities"),
            description="How far the record may shift the query, over what noise_multiplier is relative to.",
            examples=[[0.0, 1.0, 2.0]],
        ),
    ]
    weights: Annotated[
        tuple[ShiftWeight, ...],
        Field(
            min_length=1,
            max_length=LARGEST_COMPONENTS,
            validation_alias=AliasChoices("weights", "sampling_probs"),
            description="Probability of each shift; they sum to 1 (within 1e-12).",
            examples=[[0.9, 0.09, 0.01]],
        ),
    ]

    @model_validator(mode="after")
    def _weights_fit(self) -> Self:
        if len(self.weights) != len(self.shifts):
            raise field_error("weights", "There must be as many weights as shifts.")
        if abs(math.fsum(self.weights) - 1) > WEIGHT_SUM_TOLERANCE:
            raise field_error("weights", "The weights must sum to 1 (within 1e-12).")
        return self


class PoissonSampledMechanism(Request):
    """A mechanism run on a random part of the data: each record enters independently with probability `sample_rate`."""

    type: Literal["poisson_sampled"]
    sample_rate: SampleRate
    mechanism: InnerMechanism


class RepeatedMechanism(Request):
    """One mechanism applied `steps` times to the same data, with all results released."""

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


class NoisySgdMechanism(Request):
    """SGD that releases the mean gradient of a batch of fixed size, clipped and with Gaussian noise, at every step.

    The default neighbouring relation is `replace_one`: one record is replaced by another. Under `add_or_remove_one`,
    `dataset_size` is that of the larger data set. With batches below the data set, several steps are exact under
    `add_or_remove_one`. Under `replace_one` they lie between two theorems (`tight` false).
    """

    type: Literal["noisy_sgd"]
    dataset_size: DatasetSize
    batch_size: BatchSize
    dimension: Dimension
    steps: Steps
    noise_std: NoiseStd
    max_grad_norm: OptionalMaxGradNorm = None
    susceptibility: OptionalSusceptibility = None

    @model_validator(mode="after")
    def _batch_fits(self) -> Self:
        if self.batch_size > self.dataset_size:
            raise field_error("batch_size", "batch_size must be at most dataset_size.")
        return self


class MixtureComponent(Request):
    """A mechanism that may be the one that is run, and how likely that is."""

    weight: Weight
    mechanism: InnerMechanism


class MixtureMechanism(Request):
    """One of the components, drawn at random and run with all its steps; the draw is kept secret, but not counted on.

    Answers hold even if the attacker learns which component was drawn. It mixes after all steps: a mixture may hold
    mixtures, repetitions and compositions, but be inside none of the latter two.
    """

    type: Literal["mixture"]
    components: Annotated[
        tuple[MixtureComponent, ...],
        Field(
            min_length=1,
            max_length=LARGEST_COMPONENTS,
            description="Each a weight and a mechanism; the weights sum to 1 (within 1e-12).",
        ),
    ]

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        if abs(math.fsum(component.weight for component in self.components) - 1) > WEIGHT_SUM_TOLERANCE:
            raise field_error("components", "The weights of all components must sum to 1 (within 1e-12).")
        return self


MechanismSpec = Annotated[
    GaussianMechanism
    | LaplaceMechanism
    | GaussianMixtureMechanism
    | GdpMechanism
    | PureDpMechanism
    | ApproximateDpMechanism
    | ExponentialMechanism
    | PoissonSampledMechanism
    | RepeatedMechanism
    | ComposedMechanism
    | DpsgdMechanism
    | NoisySgdMechanism
    | MixtureMechanism
    | ImportedMechanism,
    named_schema("Mechanism", "The mechanism that touched the data.", discriminator="type"),
]
InnerMechanism = Annotated[
    MechanismSpec,
    Field(validation_alias=AliasChoices("mechanism", "event"), description="The mechanism inside."),
]

for _model in (PoissonSampledMechanism, RepeatedMechanism, ComposedMechanism, MixtureComponent, MixtureMechanism):
    _model.model_rebuild()


class TreeSize(NamedTuple):
    """Size of a mechanism tree: `components` counts its leaves, `steps` the applications of all leaves together."""

    depth: int
    components: int
    steps: int


_ONE: Final = TreeSize(1, 1, 1)
_SINGLE: Final[frozenset[type[Request]]] = frozenset(
    {
        GaussianMechanism,
        LaplaceMechanism,
        GaussianMixtureMechanism,
        GdpMechanism,
        PureDpMechanism,
        ApproximateDpMechanism,
        ExponentialMechanism,
    }
)
"""Models of one step: a look at the type saves asking for each of the others, which every closed form would pay for."""


def tree_size(mechanism: MechanismSpec) -> TreeSize:
    """Return the size of a tree without unrolling repetitions. Python integers do not overflow."""
    if type(mechanism) in _SINGLE:
        return _ONE
    if isinstance(mechanism, DpsgdMechanism):
        return TreeSize(1, 1, mechanism.total_steps)
    if isinstance(mechanism, NoisySgdMechanism):
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
    if isinstance(mechanism, MixtureMechanism):
        sizes = [tree_size(component.mechanism) for component in mechanism.components]
        return TreeSize(
            1 + max(size.depth for size in sizes),
            sum(size.components for size in sizes),
            max(size.steps for size in sizes),
        )
    return _ONE


def is_one_step(mechanism: MechanismSpec) -> bool:
    """Whether a mechanism is a single step without inner mechanisms, phases or a neighbouring relation."""
    return type(mechanism) in _SINGLE


def nodes_of(mechanism: MechanismSpec) -> list[MechanismSpec]:
    """Yield all mechanisms of a tree."""
    if type(mechanism) in _SINGLE:
        return [mechanism]
    if isinstance(mechanism, PoissonSampledMechanism | RepeatedMechanism):
        return [mechanism, *nodes_of(mechanism.mechanism)]
    if isinstance(mechanism, ComposedMechanism):
        return [mechanism, *(node for part in mechanism.mechanisms for node in nodes_of(part))]
    if isinstance(mechanism, MixtureMechanism):
        return [mechanism, *(node for part in mechanism.components for node in nodes_of(part.mechanism))]
    return [mechanism]
