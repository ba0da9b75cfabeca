"""Assumptions and notes that follow from the definition of practical membership privacy, for every answer."""

from __future__ import annotations

from typing import Final

from api_schemas.assumptions_and_hazards import Assumption

DATA_ARE_A_RANDOM_HALF: Final = Assumption(
    code="data_are_a_random_half",
    text="The data are a uniformly random half of the parent set; the attacker knows the parent set, but no record of "
    "the data for certain, and before the release holds every point for a member with probability 1/2.",
    holds="unknown",
)
NO_COMPOSITION: Final = (
    "PMP belongs to one release on one parent set: parameters of several releases do not add up; what is computed from "
    "this release alone keeps it."
)
NO_CONVERSE: Final = "PMP does not protect against attackers who know records of the data; worst_case does."
DISTINCT_RECORDS: Final = (
    "Each position counts as a record of its own, also where points are equal: the answer is about whether that record "
    "is in the data, not whether some record with its value is."
)
