"""Threat models: who attacks, discriminated by `type`.

All but `worst_case` are *relaxed* (weaker), and the worst case is always answered beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.base import Request, field_error, is_none, named_schema
from api_schemas.choices import NeighboringRelation
from api_schemas.discrete_mechanisms import LocalMechanism, NoiseMechanism
from api_schemas.mechanisms import (
    WEIGHT_SUM_TOLERANCE,
    DpsgdMechanism,
    GaussianMixtureMechanism,
    LaplaceMechanism,
    MechanismSpec,
    NoisySgdMechanism,
    PoissonSampledMechanism,
    ShuffledReportsMechanism,
    is_one_step,
    nodes_of,
)
from api_schemas.scalar_types import POSITIVE_ZERO, Dimension, Susceptibility, Weight

LARGEST_POPULATION: Final = 64
LARGEST_ADVERSARIES: Final = 16
LARGEST_GROUP: Final = 1_000_000
RELATIONS: Final[tuple[NeighboringRelation, ...]] = ("zero_out", "add_or_remove_one", "replace_one")
"""Those under which a record moves a release least, first."""


UnknownDirection = Annotated[
    Literal["common_to_all_steps", "fresh_each_step"],
    named_schema(
        "UnknownDirection",
        "common_to_all_steps: one unknown direction for the whole run, averaged by the test. fresh_each_step: "
        "the adversary ignores that all steps share the direction. The latter composes step by step and gives "
        "no bound for the former.",
        examples=["common_to_all_steps"],
    ),
]


class WorstCaseThreatModel(Request):
    """The adversary of differential privacy, who knows all other records and runs the Neyman-Pearson optimal test.

    The default `neighboring_relation` is `add_or_remove_one`. Exceptions are `replace_one` for `noisy_sgd` and for
    local mechanisms (`randomized_response`, `unary_encoding`, `shuffled_reports`), and `zero_out` for `dpsgd` on
    shuffled batches. `records` is the number of records of one person (group or user-level privacy). Default: 1.
    """

    type: Literal["worst_case"]
    neighboring_relation: Annotated[
        NeighboringRelation,
        Field(validation_alias=AliasChoices("neighboring_relation", "neighbouring_relation")),
    ] = "add_or_remove_one"
    records: Annotated[
        int | None,
        Field(
            ge=1,
            le=LARGEST_GROUP,
            description="Largest number of records of one person, all protected together. Default: 1.",
            examples=[1],
            exclude_if=is_none,
        ),
    ] = None


_USUAL: Final = WorstCaseThreatModel(type="worst_case")


def usual_worst_case() -> WorstCaseThreatModel:
    """Return the worst-case threat model that applies to requests without a threat model.

    The object is shared, because it is immutable.
    """
    return _USUAL


class GlrtThreatModel(Request):
    """An adversary who knows the size, but not the direction, of the record's influence on the released vector.

    The adversary runs the generalised likelihood ratio test. The threat model applies to Gaussian mechanisms with the
    same direction in every step.
    """

    type: Literal["glrt"]
    dimension: Dimension
    unknown_direction: UnknownDirection = "common_to_all_steps"


class Subpopulation(Request):
    """A share of all records with equal susceptibility."""

    weight: Weight
    susceptibility: Susceptibility


Population = Annotated[
    tuple[Subpopulation, ...],
    Field(
        min_length=1,
        max_length=LARGEST_POPULATION,
        description="Shares of the records with their susceptibilities. The weights sum to 1 within 1e-12.",
    ),
]


class MembershipThreatModel(Request):
    """The adversary of Gaussian membership inference privacy.

    The adversary knows the distribution of the data, but not the other records. The adversary tests whether a record
    was in the training data of `noisy_sgd`.
    """

    type: Literal["membership"]
    step_curve: Annotated[
        Literal["chi_square", "gaussian"],
        named_schema(
            "StepCurve",
            "Curve of one step, by Leemann et al. 2023. chi_square: exact for Gaussian gradients (Theorem 5.1). "
            "gaussian: approximation (Corollary 5.1).",
            examples=["chi_square"],
        ),
    ] = "chi_square"
    composition: Annotated[
        Literal["exact", "clt", "root_sum_square"],
        named_schema(
            "MembershipComposition",
            "Composition of the steps. exact: numerical composition of the sampled steps. clt: approximation by "
            "the limit of many steps (Leemann et al. 2023, Equation 10). root_sum_square: approximation "
            "mu sqrt(steps), which ignores sampling.",
            examples=["exact"],
        ),
    ] = "exact"
    population: Annotated[
        Population | Literal["chi_square"] | None,
        Field(
            description="Distribution of the susceptibilities over the records: a list, or chi_square for "
            "Gaussian gradients. Default: every record has the susceptibility of the mechanism.",
            exclude_if=is_none,
        ),
    ] = None

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        if isinstance(self.population, tuple):
            _check_weights("population", (part.weight for part in self.population))
        return self


class PracticalThreatModel(Request):
    """The attacker of practical membership privacy (PMP).

    The attacker knows 2n candidate records, but not the half that is the data. The parameter belongs to the whole
    release and exactly these candidates. The worst case is computed from `mechanism`. The answers hold only for a prior
    of 1/2, and PMP does not compose.
    """

    type: Literal["practical"]
    epsilon_pmp: Annotated[
        float,
        Field(
            ge=0,
            le=1e6,
            validation_alias=AliasChoices("epsilon_pmp", "pmp_epsilon"),
            description="Parameter epsilon of (epsilon, delta)-PMP for these candidates, in nats.",
            examples=[0.5],
            json_schema_extra={"x-unit": "nats"},
        ),
        POSITIVE_ZERO,
    ]
    delta: Annotated[
        float,
        Field(ge=0, le=1, description="Parameter delta of (epsilon, delta)-PMP.", examples=[0.0]),
        POSITIVE_ZERO,
    ] = 0.0


class AdversaryComponent(Request):
    """One possible adversary of a mixture, and the probability of this adversary."""

    weight: Weight
    threat_model: PureThreatModel


class MixtureThreatModel(Request):
    """One of several adversaries, drawn before the run and fixed for the whole run."""

    type: Literal["mixture"]
    components: Annotated[
        tuple[AdversaryComponent, ...],
        Field(
            min_length=1,
            max_length=LARGEST_ADVERSARIES,
            description="Components with a weight and a threat model each. The weights sum to 1 within 1e-12.",
        ),
    ]

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        _check_weights("components", (component.weight for component in self.components))
        return self


PureThreatModel = Annotated[
    WorstCaseThreatModel | GlrtThreatModel | MembershipThreatModel,
    named_schema("PureThreatModel", "A single adversary, without a mixture.", discriminator="type"),
]
ThreatModelSpec = Annotated[
    WorstCaseThreatModel | GlrtThreatModel | MembershipThreatModel | PracticalThreatModel | MixtureThreatModel,
    named_schema("ThreatModel", "The adversary.", discriminator="type"),
]

AdversaryComponent.model_rebuild()
MixtureThreatModel.model_rebuild()


def settled(threat_model: ThreatModelSpec, mechanism: MechanismSpec) -> ThreatModelSpec:
    """Return a threat model completed by the default neighbouring relation of the mechanism.

    A relation that the threat model names stays unchanged.
    """
    relation = _relation_of(mechanism)
    if relation is None:
        return threat_model
    if isinstance(threat_model, WorstCaseThreatModel) and "neighboring_relation" not in threat_model.model_fields_set:
        return threat_model.model_copy(update={"neighboring_relation": relation})
    if isinstance(threat_model, MixtureThreatModel):
        components = tuple(
            part.model_copy(update={"threat_model": settled(part.threat_model, mechanism)})
            for part in threat_model.components
        )
        return threat_model.model_copy(update={"components": components})
    return threat_model


def _relation_of(mechanism: MechanismSpec) -> NeighboringRelation | None:
    """Return the neighbouring relation of a mechanism, or None for the default relation."""
    if is_one_step(mechanism):
        return None
    if _shuffles(mechanism):
        return "zero_out"
    replaced = any(
        isinstance(node, NoisySgdMechanism | LocalMechanism | ShuffledReportsMechanism) for node in nodes_of(mechanism)
    )
    return "replace_one" if replaced else None


def _shuffles(mechanism: MechanismSpec) -> bool:
    return any(isinstance(node, DpsgdMechanism) and node.sampling == "shuffled" for node in nodes_of(mechanism))


def worst_case_beside(relaxed: Iterable[ThreatModelSpec], mechanism: MechanismSpec) -> WorstCaseThreatModel:
    """Return the worst case to show beside weaker (relaxed) threat models: the strongest that bounds all of them."""
    faced = [model for each in relaxed for model in _faced(settled(each, mechanism), mechanism)]
    return WorstCaseThreatModel(
        type="worst_case",
        neighboring_relation=RELATIONS[max(RELATIONS.index(relation) for relation, _ in faced)],
        records=max((records for _, records in faced if records is not None), default=None),
    )


def _faced(threat_model: ThreatModelSpec, mechanism: MechanismSpec) -> Iterator[tuple[NeighboringRelation, int | None]]:
    """Yield (neighbouring relation, number of records) of the worst cases that bound an adversary or its components."""
    match threat_model:
        case WorstCaseThreatModel():
            yield threat_model.neighboring_relation, threat_model.records
        case GlrtThreatModel():
            yield "add_or_remove_one", None
        case MembershipThreatModel():
            yield "replace_one", None
        case PracticalThreatModel():
            # All of its data have the same size, for which not every step has known curves.
            known: NeighboringRelation = "replace_one" if _can_replace(mechanism) else "add_or_remove_one"
            yield ("zero_out" if _shuffles(mechanism) else known), None
        case MixtureThreatModel():
            for part in threat_model.components:
                yield from _faced(part.threat_model, mechanism)


def _can_replace(mechanism: MechanismSpec) -> bool:
    """Return whether every step of a mechanism has a known dominating pair of distributions for replaced records."""
    nodes = nodes_of(mechanism)
    sampled = [node for node in nodes if isinstance(node, PoissonSampledMechanism) and node.sample_rate < 1]
    return not (
        any(
            isinstance(each, LaplaceMechanism | NoiseMechanism) for node in sampled for each in nodes_of(node.mechanism)
        )
        or any(isinstance(node, GaussianMixtureMechanism) for node in nodes)
        or any(isinstance(node, DpsgdMechanism) and node.sampling == "fixed_with_replacement" for node in nodes)
    )


def is_relaxed(threat_model: ThreatModelSpec) -> bool:
    """Return whether a threat model is weaker than the worst case, which is then shown beside its answers."""
    return not isinstance(threat_model, WorstCaseThreatModel)


def _check_weights(field: str, weights: Iterable[float]) -> None:
    if abs(math.fsum(weights) - 1) > WEIGHT_SUM_TOLERANCE:
        raise field_error(field, "The weights must sum to 1 (within 1e-12).")
