"""Request and response of `POST /v1/pmp/finite`: practical membership privacy of a mechanism given as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import Annotated, Final, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from api_schemas.assumptions_and_hazards import Assumptions
from api_schemas.base import Request, Result, is_none
from api_schemas.choices import Evidence
from api_schemas.enclosures import Conditional, EnclosedNumber, EnclosedProbability, Notes, Source, Tight
from api_schemas.limits import limit_error
from api_schemas.pmp import EpsilonPmp, EtaMip, PmpDirection, PointIndex, SuccessBound
from api_schemas.scalar_types import POSITIVE_ZERO, UnitInterval

LARGEST_FINITE_POINTS: Final = 16
LARGEST_OUTPUTS: Final = 4_096
SUM_TOLERANCE: Final = 1e-9
LARGEST_SUBSETS: Final = math.comb(LARGEST_FINITE_POINTS, LARGEST_FINITE_POINTS // 2)

Subset = Annotated[tuple[Annotated[int, Field(ge=0, lt=LARGEST_FINITE_POINTS)], ...], Field(max_length=8)]


class PmpFiniteRequest(Request):
    """A mechanism with finitely many outputs, given by output probabilities for every half of the parent set."""

    points: Annotated[
        int,
        Field(ge=2, le=LARGEST_FINITE_POINTS, description="Size 2n of the parent set, an even number.", examples=[4]),
    ]
    probabilities: Annotated[
        tuple[Annotated[tuple[UnitInterval, ...], Field(min_length=1, max_length=LARGEST_OUTPUTS)], ...],
        Field(
            min_length=2,
            max_length=LARGEST_SUBSETS,
            description="Probability of every output (columns) for every subset of n points (rows).",
            examples=[[[0.75, 0.25], [0.25, 0.75]]],
        ),
    ]
    subsets: Annotated[
        Annotated[tuple[Subset, ...], Field(min_length=2, max_length=LARGEST_SUBSETS)] | None,
        Field(
            description="Subset of each row, as indices of points from 0. Default: all subsets in lexicographic "
            "order, [0, 1], [0, 2], ...",
            examples=[[[0], [1]]],
            exclude_if=is_none,
        ),
    ] = None
    epsilon: Annotated[
        Annotated[float, Field(ge=0, le=1e6), POSITIVE_ZERO] | None,
        Field(
            description="Epsilon, in nats, for the smallest delta. Without epsilon, the answer has no delta.",
            examples=[0.01],
            exclude_if=is_none,
            json_schema_extra={"x-unit": "nats"},
        ),
    ] = None

    @model_validator(mode="after")
    def _one_row_for_each_subset(self) -> Self:
        if self.points % 2:
            raise limit_error("/points", "The parent set must have an even number of points.")
        needed = math.comb(self.points, self.points // 2)
        if len(self.probabilities) != needed:
            raise limit_error("/probabilities", f"Must have {needed} rows, one for each half of {self.points} points.")
        for index, row in enumerate(self.probabilities):
            if len(row) != len(self.probabilities[0]):
                raise limit_error(f"/probabilities/{index}", "Every row must have as many outputs as the first row.")
            if abs(math.fsum(row) - 1) > SUM_TOLERANCE:
                raise limit_error(f"/probabilities/{index}", "The probabilities of a row must sum to 1 (within 1e-9).")
        self._check_subsets()
        return self

    def _check_subsets(self) -> None:
        if self.subsets is None:
            return
        known: set[frozenset[int]] = set()
        for index, subset in enumerate(self.subsets):
            held = frozenset(subset)
            if len(subset) != self.points // 2 or len(held) != len(subset) or max(held) >= self.points:
                raise limit_error(
                    f"/subsets/{index}",
                    f"Must contain {self.points // 2} different numbers from 0 to {self.points - 1}.",
                )
            if held in known:
                raise limit_error(f"/subsets/{index}", "This subset occurs twice. Send every subset once.")
            known.add(held)
        if len(known) != len(self.probabilities):
            raise limit_error("/subsets", f"Must have {len(self.probabilities)} subsets, one for each row.")

    @property
    def subsets_in_order(self) -> Iterable[tuple[int, ...]]:
        """The subsets of the parent set, one for each row of `probabilities`.

        The parent set is the population from which the data are drawn.
        """
        return self.subsets or combinations(range(self.points), self.points // 2)


class FiniteMaximiser(TypedDict):
    """Point and output that attain the PMP parameter epsilon_pmp."""

    point: PointIndex
    output: Annotated[int, Field(ge=0, description="Index of the output in the rows, from 0.")]
    direction: PmpDirection


class AdjacentWorstCase(TypedDict):
    """The adversary of differential privacy, who knows all records but one.

    The data sets are halves of the parent set.
    """

    epsilon: Annotated[
        EnclosedNumber, Field(description="Privacy parameter epsilon in nats, for halves that differ in one point.")
    ]
    delta: Annotated[
        EnclosedProbability | None,
        Field(description="Privacy parameter delta at the epsilon of the request. null: the request has no epsilon."),
    ]


class PmpFiniteResponse(Result):
    """PMP parameter of the table, and related privacy parameters."""

    data_size: Annotated[int, Field(description="Number n of records, half of the points.")]
    epsilon_pmp: EpsilonPmp
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    source: Source
    maximiser: FiniteMaximiser
    delta_pmp: Annotated[
        EnclosedProbability | None,
        Field(
            description="Smallest delta of (epsilon, delta)-PMP at the epsilon of the request. null: the "
            "request has no epsilon."
        ),
    ]
    bayes_success: Annotated[
        EnclosedProbability,
        Field(
            description="Success probability of the best attack on the most exposed point: (1 + TV)/2. TV is the "
            "total variation distance between the outputs with and without the point."
        ),
    ]
    success_bound: SuccessBound
    eta_mip: EtaMip
    worst_case: AdjacentWorstCase
    notes: Notes
    assumptions: Assumptions
