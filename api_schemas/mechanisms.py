"""Mechanisms: what a training run or a release did with the data. A mechanism is a tree, discriminated by `type`."""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.base import Request, field_error, is_none, named_schema
from api_schemas.discrete_mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    PermuteAndFlipMechanism,
    RandomizedResponseMechanism,
    ReportNoisyMaxMechanism,
    SkellamMechanism,
    SparseVectorMechanism,
    StaircaseMechanism,
    UnaryEncodingMechanism,
)
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
from api_schemas.stated_divergences import RdpMechanism, ZcdpMechanism
from api_schemas.training_runs import DpsgdMechanism
from api_schemas.trials import FixedTrialCount, ReleasedTrials, TrialCountSpec

LARGEST_DEPTH: Final = 16
LARGEST_COMPONENTS: Final = 256
WEIGHT_SUM_TOLERANCE: Final = 1e-12
LARGEST_LOCAL_EPSILON: Final = 100.0


class GaussianMechanism(Request):
    """A query of sensitivity 1 with Gaussian noise of standard deviation `noise_multiplier`."""

    type: Literal["gaussian"]
    noise_multiplier: NoiseMultiplier


class LaplaceMechanism(Request):
    """A query of sensitivity 1 with Laplace noise of scale `noise_multiplier`."""

    type: Literal["laplace"]
    noise_multiplier: LaplaceNoiseMultiplier


class GdpMechanism(Request):
    """Any mechanism that is mu-Gaussian differentially private.

    An attack is at most as powerful as a test of N(0, 1) against N(mu, 1).
    """

    type: Literal["gdp"]
    mu: Mu


class PureDpMechanism(Request):
    """Any mechanism that is epsilon-differentially private."""

    type: Literal["pure_dp"]
    epsilon: Epsilon


class ApproximateDpMechanism(Request):
    """Any mechanism that is (epsilon, delta)-differentially private."""

    type: Literal["approximate_dp"]
    epsilon: Epsilon
    delta: Delta


class ExponentialMechanism(Request):
    """One outcome, drawn with probability proportional to exp(epsilon score / (2 Delta)).

    One record changes no score by more than Delta.
    """

    type: Literal["exponential"]
    epsilon: Epsilon


class GaussianMixtureMechanism(Request):
    """Gaussian noise of standard deviation `noise_multiplier` on a query with a random shift.

    The record shifts the query by one of `shifts`, drawn in every step with probabilities `weights`. The output has the
    law N(0) without the record, and sum w_i N(s_i) with the record. N(s) is the normal law of the noise with mean s.
    Only `add_or_remove_one` for one record is allowed.
    """

    type: Literal["gaussian_mixture"]
    noise_multiplier: NoiseMultiplier
    shifts: Annotated[
        tuple[Shift, ...],
        Field(
            min_length=1,
            max_length=LARGEST_COMPONENTS,
            validation_alias=AliasChoices("shifts", "sensitivities"),
            description="Possible shifts of the query by the record, in the unit of `noise_multiplier`.",
            examples=[[0.0, 1.0, 2.0]],
        ),
    ]
    weights: Annotated[
        tuple[ShiftWeight, ...],
        Field(
            min_length=1,
            max_length=LARGEST_COMPONENTS,
            validation_alias=AliasChoices("weights", "sampling_probs"),
            description="Probability of each shift. The weights sum to 1 within 1e-12.",
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
    """A mechanism on a random subset of the data. Each record enters independently with probability `sample_rate`."""

    type: Literal["poisson_sampled"]
    sample_rate: SampleRate
    mechanism: InnerMechanism


class RepeatedMechanism(Request):
    """One mechanism applied `steps` times to the same data, with all results released."""

    type: Literal["repeated"]
    mechanism: InnerMechanism
    steps: Steps


class ComposedMechanism(Request):
    """Several mechanisms on the same data, with all results released."""

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
    """SGD with batches of fixed size.

    Every step releases the mean of clipped gradients with Gaussian noise. The default neighbouring relation is
    `replace_one`. Under `add_or_remove_one`, `dataset_size` is the size of the larger data set. Several steps with
    batches smaller than the data set have exact bounds under `add_or_remove_one`. Under `replace_one`, the bounds come
    from two theorems (`tight` is false).
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
    """One possible mechanism and its probability."""

    weight: Weight
    mechanism: InnerMechanism


class MixtureMechanism(Request):
    """One of several runs, drawn at random by the weights of `components`, and made with all its steps.

    The draw is secret, but the bounds hold even for an attacker who learns the component. A mixture may contain
    mixtures, repetitions and compositions. Repetitions and compositions must not contain a mixture.
    """

    type: Literal["mixture"]
    components: Annotated[
        tuple[MixtureComponent, ...],
        Field(
            min_length=1,
            max_length=LARGEST_COMPONENTS,
            description="Components with a weight and a mechanism each. The weights sum to 1 within 1e-12.",
        ),
    ]

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        if abs(math.fsum(component.weight for component in self.components) - 1) > WEIGHT_SUM_TOLERANCE:
            raise field_error("components", "The weights of all components must sum to 1 (within 1e-12).")
        return self


LocalRandomizer = Annotated[
    PureDpMechanism | RandomizedResponseMechanism,
    named_schema(
        "LocalRandomizer",
        "Randomiser of every person: pure_dp for any randomiser of which only epsilon is known, or "
        "randomized_response. epsilon is at most 100.",
        discriminator="type",
    ),
]


class ShuffledReportsMechanism(Request):
    """Reports of many persons by one local randomiser, in a secret random order (shuffle model).

    The default neighbouring relation is `replace_one`, and no other relation is allowed. Two theorems enclose answers
    for any randomiser, and for randomised response of many persons. Answers for randomised response of a few persons,
    and of binary responses with `others_holding_one`, are exact.
    """

    type: Literal["shuffled_reports"]
    reports: Annotated[
        int,
        Field(
            ge=1,
            le=10**9,
            validation_alias=AliasChoices("reports", "num_reports"),
            description="Number of reports in a round, one of each person. The number is public.",
            examples=[10_000],
        ),
    ]
    randomizer: Annotated[
        LocalRandomizer, Field(examples=[{"type": "randomized_response", "epsilon": 1.0, "options": 2}])
    ]
    others_holding_one: Annotated[
        int | None,
        Field(
            ge=0,
            le=10**9,
            description="Number of other persons who hold the value 1, for randomized_response with 2 options. "
            "Default: the worst case over all data sets.",
            examples=[0],
            exclude_if=is_none,
        ),
    ] = None

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        if self.randomizer.epsilon > LARGEST_LOCAL_EPSILON:
            raise field_error(
                "randomizer",
                "epsilon of the randomizer must be at most 100. Reports of a larger epsilon are not private: describe "
                "them without shuffling.",
            )
        others = self.others_holding_one
        if others is None:
            return self
        if not isinstance(self.randomizer, RandomizedResponseMechanism) or self.randomizer.options != 2:
            sentence = "Remove others_holding_one, or send randomized_response with options 2 as the randomizer."
            raise field_error("others_holding_one", sentence)
        if others >= self.reports:
            raise field_error("others_holding_one", f"Must be at most reports - 1, {self.reports - 1}.")
        return self


class SelectedMechanism(Request):
    """The best of several independent trials of one mechanism, by a score, or all trials of a fixed number.

    The mechanism describes a whole trial, the computation of its score included. The bounds hold for every score. They
    come from two theorems (`tight` is false). Repetitions and compositions must not contain a selection of the best.
    """

    type: Literal["selected"]
    mechanism: InnerMechanism
    trials: TrialCountSpec
    released: ReleasedTrials = "best"

    @model_validator(mode="after")
    def _all_are_counted(self) -> Self:
        if self.released == "all" and not isinstance(self.trials, FixedTrialCount):
            raise field_error(
                "released",
                'A random number of trials releases only the best. Send "best", or a fixed number of trials.',
            )
        return self


MechanismSpec = Annotated[
    GaussianMechanism
    | LaplaceMechanism
    | GaussianMixtureMechanism
    | GdpMechanism
    | PureDpMechanism
    | ApproximateDpMechanism
    | ZcdpMechanism
    | RdpMechanism
    | ExponentialMechanism
    | PoissonSampledMechanism
    | RepeatedMechanism
    | ComposedMechanism
    | DpsgdMechanism
    | NoisySgdMechanism
    | MixtureMechanism
    | SelectedMechanism
    | RandomizedResponseMechanism
    | UnaryEncodingMechanism
    | StaircaseMechanism
    | DiscreteLaplaceMechanism
    | DiscreteGaussianMechanism
    | SkellamMechanism
    | ReportNoisyMaxMechanism
    | PermuteAndFlipMechanism
    | SparseVectorMechanism
    | ShuffledReportsMechanism
    | ImportedMechanism,
    named_schema("Mechanism", "The mechanism that processed the data.", discriminator="type"),
]
InnerMechanism = Annotated[
    MechanismSpec,
    Field(validation_alias=AliasChoices("mechanism", "event"), description="The nested mechanism."),
]

for _model in (
    PoissonSampledMechanism,
    RepeatedMechanism,
    ComposedMechanism,
    MixtureComponent,
    MixtureMechanism,
    SelectedMechanism,
):
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
        ZcdpMechanism,
        RdpMechanism,
        ExponentialMechanism,
        StaircaseMechanism,
        DiscreteLaplaceMechanism,
        DiscreteGaussianMechanism,
        SkellamMechanism,
        ReportNoisyMaxMechanism,
        PermuteAndFlipMechanism,
        SparseVectorMechanism,
    }
)
"""Models of one step: a look at the type saves asking for each of the others, which every closed form would pay for."""


def tree_size(mechanism: MechanismSpec) -> TreeSize:
    """Return the size of a mechanism tree without unrolling repetitions. Python integers do not overflow."""
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
    if isinstance(mechanism, SelectedMechanism):
        depth, components, steps = tree_size(mechanism.mechanism)
        times = mechanism.trials.count if isinstance(mechanism.trials, FixedTrialCount) else 1
        return TreeSize(depth + 1, components, steps * times)
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
    """Return whether a mechanism is a single step without inner mechanisms, phases or a neighbouring relation."""
    return type(mechanism) in _SINGLE


def nodes_of(mechanism: MechanismSpec) -> list[MechanismSpec]:
    """Return all mechanisms in the tree of a mechanism, the root included."""
    if type(mechanism) in _SINGLE:
        return [mechanism]
    if isinstance(mechanism, PoissonSampledMechanism | RepeatedMechanism | SelectedMechanism):
        return [mechanism, *nodes_of(mechanism.mechanism)]
    if isinstance(mechanism, ComposedMechanism):
        return [mechanism, *(node for part in mechanism.mechanisms for node in nodes_of(part))]
    if isinstance(mechanism, MixtureMechanism):
        return [mechanism, *(node for part in mechanism.components for node in nodes_of(part.mechanism))]
    return [mechanism]
