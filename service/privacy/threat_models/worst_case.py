"""Adversary of differential privacy, who lacks only the record, with the best test by Neyman and Pearson."""

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
    """Adversary of differential privacy: the best test between data sets that are neighbours.

    Attributes
    ----------
    neighboring_relation : str
        Relation of the data sets, for example `add_or_remove_one`.
    records : int or None
        Number of records of one person in which the data sets differ; None stands for one record.

    Notes
    -----
    The method `under` of a step returns its pair of laws for these neighbours. It raises UnsupportedCombination, which
    names the missing theorem, if no such pair is known.

    With `add_or_remove_one`, k records move Gaussian and Laplace queries k times as far. Poisson samples draw them
    binomially, and batches of fixed size hypergeometrically. `replace_one` doubles the sensitivity of Gaussian and
    Laplace steps, and has its own pair for Poisson-sampled Gaussian steps. `zero_out` has the pairs of
    `add_or_remove_one` for all sums over a Poisson sample or over all records. Stated guarantees (for example rho-zCDP)
    are taken to hold for one changed record under `neighboring_relation`. For k records they are composed over k
    changes of one record.
    """

    type: ClassVar[str] = "worst_case"
    neighboring_relation: NeighboringRelation = "add_or_remove_one"
    records: Annotated[int | None, RECORDS] = None

    def __post_init__(self) -> None:
        check_fields(self)
        _ = self.neighbours  # checks the relation

    @property
    def neighbours(self) -> Neighbours:
        """Neighbouring data sets between which the attacker distinguishes."""
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


@lru_cache(maxsize=64)  # few values, needed by every operation of a model
def _neighbours(relation: NeighboringRelation, records: int) -> Neighbours:
    return Neighbours(relation, records)


def worst_of(models: Iterable[WorstCase]) -> WorstCase:
    """Return a worst case that is at least as strong as each of one or more models, at every rate.

    The result has the relation under which a record moves a release farthest, and the largest number of records. An
    empty record is a special replacement of a record. Adding a record is at most as revealing as replacing an empty
    record.
    """
    listed = list(models)
    return WorstCase(
        LEAST_FIRST[max(LEAST_FIRST.index(model.neighboring_relation) for model in listed)],
        max((model.records for model in listed if model.records is not None), default=None),
    )
