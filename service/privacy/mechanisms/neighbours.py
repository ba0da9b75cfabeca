"""Neighbouring data sets: threat models state the relation, and the worst-case pair of a step depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final, get_args

from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.domain import RECORDS

NeighboringRelation = Literal["add_or_remove_one", "replace_one", "zero_out"]
ADD_OR_REMOVE: Final[NeighboringRelation] = "add_or_remove_one"
REPLACE: Final[NeighboringRelation] = "replace_one"
ZERO_OUT: Final[NeighboringRelation] = "zero_out"
LEAST_FIRST: Final[tuple[NeighboringRelation, ...]] = (ZERO_OUT, ADD_OR_REMOVE, REPLACE)
"""Relations by rising distance that a record moves a release."""
RELATIONS: Final[tuple[str, ...]] = get_args(NeighboringRelation)


@final
@dataclass(frozen=True, slots=True)
class Neighbours:
    """Neighbouring data sets D and D', which differ in several records of one person.

    Attributes
    ----------
    relation : str
        Neighbouring relation, see Notes.
    records : int
        Number of records that differ.

    Notes
    -----
    Depending on the relation, D' has these records in addition (`add_or_remove_one`), other records in their places
    (`replace_one`), or empty records, which add nothing to any query (`zero_out`). The records belong to one person: D'
    results from D by `records` changes of one record each, all of one kind.
    """

    relation: NeighboringRelation = "add_or_remove_one"
    records: int = 1

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise OutOfDomain("neighboring_relation", self.relation, f"one of {', '.join(RELATIONS)}")
        if self.records not in RECORDS:
            raise OutOfDomain("records", self.records, str(RECORDS))

    @property
    def distance(self) -> int:
        """Largest change of a sum, in units of one record's contribution: 2 for each replaced record, otherwise 1."""
        return 2 * self.records if self.relation == REPLACE else self.records

    def refused(self, what: str, reason: str, supported: tuple[str, ...]) -> UnsupportedCombination:
        """Return the error that names the missing theorem for the mechanism `what` between these neighbours.

        `reason` is the explanation, and `supported` lists the relations between neighbours that have a theorem.
        """
        several = f" of {self.records} records" if self.records > 1 else ""
        return UnsupportedCombination("threat_model", f"{self.relation}{several} for {what}", reason, supported)


ONE_ADDED: Final = Neighbours()
ONE_REPLACED: Final = Neighbours("replace_one")
