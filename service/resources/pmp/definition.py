"""Assumptions and notes that follow from the definition of practical membership privacy, for every answer."""

from __future__ import annotations

from typing import Final

from api_schemas.assumptions_and_hazards import Assumption

DATA_ARE_A_RANDOM_HALF: Final = Assumption(
    code="data_are_a_random_half",
    text="The data are a uniformly random half of the parent set. The attacker knows the parent set, but no record "
    "of the data for certain. Before the release, every point is a member with probability 1/2.",
    holds="unknown",
)
NO_COMPOSITION: Final = (
    "PMP belongs to one release on one parent set. Do not add parameters of several releases. Results computed "
    "from this release alone keep its PMP."
)
NO_CONVERSE: Final = "PMP does not protect against attackers who know records of the data. The worst case does."
DISTINCT_RECORDS: Final = (
    "Each position counts as a separate record, also if points are equal. The answer is about that record, not "
    "about some record with its value."
)
