"""The adversary of differential privacy: knows everything but the record, and tests as Neyman and Pearson allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.composition.planning import choose
from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.planning.plan import Plan
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.domain import RECORDS, check_fields
from service.privacy.mechanisms.neighbours import LEAST_FIRST, NeighboringRelation, Neighbours
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.trade_off.pair import TradeOffPair


@final
@dataclass(frozen=True, slots=True)
class WorstCase(AbstractThreatModel):
    """The best test between data sets that are neighbours under `neighboring_relation`, and differ in `records` records
    of one person (None: one). What a relation makes of a step, and which theorem is missing where it makes nothing of
    it, stands in the step's `under`.

    `add_or_remove_one`: k records move Gaussian and Laplace queries k times as far, and are drawn binomially by
    Poisson samples, hypergeometrically by batches of fixed size. `replace_one` doubles the sensitivity of Gaussian and
    Laplace, and has its own pair for Poisson-sampled Gaussian steps; `zero_out` has the pairs of `add_or_remove_one`
    for all that sums over a Poisson sample or over all records. Stated guarantees hold for one record under the
    relation in force, and are composed along k changes of one record.
    """

    type: ClassVar[str] = "worst_case"
    neighboring_relation: NeighboringRelation = "add_or_remove_one"
    records: Annotated[int | None, RECORDS] = None

    def __post_init__(self) -> None:
        check_fields(self)
        _ = self.neighbours  # checks the relation

    @property
    def neighbours(self) -> Neighbours:
        """Which data sets the attacker tells apart."""
        return _neighbours(self.neighboring_relation, self.records or 1)

    @override
    def plan(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> Plan:
        own = choose.plan(mechanism, method, self.neighbours, options)
        return replace(own, build=partial(_with_origin, own, (self, mechanism, method, options)))

    @override
    def premises(self, mechanism: AbstractMechanism) -> tuple[()]:
        return ()


def _with_origin(own: Plan, origin: tuple[WorstCase, AbstractMechanism, str, EngineOptions]) -> TradeOffPair:
    return replace(own.curves, origin=origin)


@lru_cache(maxsize=64)  # there are few, and all that is asked of a model asks for them
def _neighbours(relation: NeighboringRelation, records: int) -> Neighbours:
    return Neighbours(relation, records)


def worst_of(models: Iterable[WorstCase]) -> WorstCase:
    """The worst case that none of the models exceeds, at any rate, where it is served: the relation under which a
    record moves a release most, and the most records. An empty record is one that may come in the place of another, and
    a record that is added has the pair of one that replaces an empty one, or a weaker one.
    """
    listed = list(models)
    return WorstCase(
        LEAST_FIRST[max(LEAST_FIRST.index(model.neighboring_relation) for model in listed)],
        max((model.records for model in listed if model.records is not None), default=None),
    )
