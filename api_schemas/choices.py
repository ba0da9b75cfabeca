"""Closed sets of words, each published once under its name."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from api_schemas.base import named_schema

Direction = Annotated[
    Literal["add", "remove", "both"],
    named_schema(
        "Direction",
        "Which of the two neighbouring data sets is the null hypothesis. add: H0 is the data without the record; "
        "remove: H0 is the data with it; both: the worse of the two.",
        examples=["add"],
    ),
]
Side = Annotated[
    Literal["at_most", "at_least"],
    named_schema(
        "Side", "Which end of the range over all attacks: the largest or the smallest value.", examples=["at_most"]
    ),
]
PointReading = Annotated[
    Literal["power", "type_two_error"],
    named_schema("PointReading", "Which number of a point of trade_off; of no matter elsewhere.", examples=["power"]),
]
NeighboringRelation = Annotated[
    Literal["add_or_remove_one", "replace_one", "zero_out"],
    named_schema(
        "NeighboringRelation",
        "Which data sets count as neighbours. add_or_remove_one: one has a record more. replace_one: another record in "
        "its place, which doubles the sensitivity of Gaussian and Laplace. zero_out: an empty record in its place, "
        "which adds nothing to any sum. Stated guarantees (gdp, pure_dp, approximate_dp, exponential) are taken as "
        "stated for it.",
        examples=["add_or_remove_one"],
    ),
]

EngineUsed: TypeAlias = Literal[
    "closed_form", "contour", "discretised", "saddlepoint", "edgeworth", "clt", "monte_carlo", "ground_truth"
]
EngineName: TypeAlias = Literal["auto", EngineUsed]
Engine = Annotated[
    EngineName,
    named_schema(
        "Engine",
        "Engine that computes a curve. auto takes the tightest that covers the mechanism.",
        examples=["auto"],
    ),
]
Method = Annotated[
    Literal[EngineName, "all"],
    named_schema(
        "Method",
        "Engine that computes the curve. auto takes the tightest that covers the mechanism; all answers by "
        "auto, and by every engine that covers the mechanism beside it (by ground_truth only if `digits` is given).",
        examples=["auto"],
    ),
]
MethodUsed = Annotated[
    EngineUsed,
    named_schema("MethodUsed", "The engine that computed it.", examples=["contour"]),
]
ComparedMethod = Annotated[
    Literal[EngineUsed, "yeom", "jayaraman", "erlingsson", "sablayrolles"],
    named_schema("ComparedMethod", "The engine, or whose earlier theorem gives the upper end.", examples=["contour"]),
]

EvidenceName: TypeAlias = Literal["exact", "proved", "certified", "statistical", "asymptotic"]
Evidence = Annotated[
    EvidenceName,
    named_schema(
        "Evidence",
        "exact: a closed form, good to a few units in the last place; proved: interval or ball arithmetic "
        "throughout; certified: every truncation, aliasing, quadrature and rounding error has a bound that is inside "
        "the enclosure; statistical: sampled, the enclosure holds with at least the stated confidence; asymptotic: an "
        "approximation without any bound.",
    ),
]
Holds = Annotated[
    Literal["yes", "no", "unknown"],
    named_schema("Holds", "Whether it is so; unknown: nothing that was sent says so or not."),
]
LimitCode = Annotated[
    Literal[
        "no_bounds",
        "sampling_error",
        "two_theorems",
        "tolerance_too_fine",
        "work_spent",
        "empty_range",
        "no_finite_end",
        "long_list",
        "small_tail",
        "many_different_steps",
        "small_loss",
        "one_engine",
        "neighbour_not_served",
        "range_end",
        "undecided_target",
        "engine_resolution",
    ],
    named_schema(
        "LimitCode",
        "What keeps the enclosure wide. no_bounds: the engine computes an approximation without an error bound; "
        "sampling_error: the ends are a confidence interval; two_theorems: the ends come from different theorems; "
        "tolerance_too_fine: the enclosure meets 1e-6, but not the finer tolerance that was sent; work_spent: the "
        "request used up its allowance of work; empty_range: no point of the curve, or perhaps none, is in the range; "
        "no_finite_end: no finite upper end is proved; long_list: more wide numbers than the second engine evaluates; "
        "small_tail: the second engine represents no number this small; many_different_steps: too many for the second "
        "engine; small_loss: the run reveals too little for the second engine; one_engine: the request names an "
        "engine, and no other is asked; neighbour_not_served, range_end, undecided_target: of calibrations, where the "
        "neighbour of the value is refused, where no number of the range fails, and where the enclosure of a target "
        "contains its limit; engine_resolution: every engine was evaluated at its finest resolution.",
        examples=["two_theorems"],
    ),
]
