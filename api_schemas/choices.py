"""Closed sets of words in requests and responses, each published once under its name."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from api_schemas.base import named_schema

Direction = Annotated[
    Literal["add", "remove", "both"],
    named_schema(
        "Direction",
        "Null hypothesis of the attack. add: H0 is the data without the record. remove: H0 is the data with the "
        "record. both: the worse of the two.",
        examples=["add"],
    ),
]
Side = Annotated[
    Literal["at_most", "at_least"],
    named_schema(
        "Side",
        "at_most: the largest value over all attacks. at_least: the smallest value over all attacks.",
        examples=["at_most"],
    ),
]
PointReading = Annotated[
    Literal["power", "type_two_error"],
    named_schema(
        "PointReading",
        "Selected quantity of a trade_off point: power or type_two_error. Only trade_off questions allow the latter.",
        examples=["power"],
    ),
]
NeighboringRelation = Annotated[
    Literal["add_or_remove_one", "replace_one", "zero_out"],
    named_schema(
        "NeighboringRelation",
        "Definition of neighbouring data sets. add_or_remove_one: one data set has one more record. "
        "replace_one: one record is replaced by another, which doubles the sensitivity of Gaussian and Laplace. "
        "zero_out: one record is replaced by an empty record, which adds nothing to a sum. Stated guarantees "
        "(gdp, pure_dp, approximate_dp, exponential) apply to the chosen relation.",
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
        "Engine that computes a curve. auto selects the engine with the tightest bounds for the mechanism.",
        examples=["auto"],
    ),
]
Method = Annotated[
    Literal[EngineName, "all"],
    named_schema(
        "Method",
        "Engine that computes the curve. auto selects the engine with the tightest bounds for the mechanism. "
        "all answers by auto and by every other engine for the mechanism. It includes ground_truth only with "
        "`digits`.",
        examples=["auto"],
    ),
]
MethodUsed = Annotated[
    EngineUsed,
    named_schema(
        "MethodUsed",
        "Engine that computed the answer. closed_form: exact formula. contour: "
        "certified integration along a complex contour. discretised: certified "
        "composition of discretised privacy losses. saddlepoint, edgeworth, clt: "
        "approximations without a bound. monte_carlo: simulation with a confidence "
        "interval. ground_truth: ball arithmetic with the requested digits.",
        examples=["contour"],
    ),
]
ComparedMethod = Annotated[
    Literal[EngineUsed, "yeom", "jayaraman", "erlingsson", "sablayrolles"],
    named_schema(
        "ComparedMethod", "Engine, or author of the earlier theorem behind the upper bound.", examples=["contour"]
    ),
]

EvidenceName: TypeAlias = Literal["exact", "proved", "certified", "statistical", "asymptotic"]
Evidence = Annotated[
    EvidenceName,
    named_schema(
        "Evidence",
        "exact: a closed form, accurate to a few units in the last place. proved: interval or ball arithmetic "
        "throughout. certified: the enclosure includes bounds of all truncation, aliasing, quadrature and "
        "rounding errors. statistical: a sampled enclosure that holds with at least the stated confidence. "
        "asymptotic: an approximation without an error bound.",
    ),
]
Holds = Annotated[
    Literal["yes", "no", "unknown"],
    named_schema("Holds", "yes, no or unknown. unknown: the request does not contain the fact."),
]
LimitCode = Annotated[
    Literal[
        "no_bounds",
        "sampling_error",
        "two_theorems",
        "tolerance_too_fine",
        "work_spent",
        "time_spent",
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
        "Reason for a wide enclosure. no_bounds: the engine computes an approximation without an error bound. "
        "sampling_error: the bounds form a confidence interval. two_theorems: the bounds come from different "
        "theorems. tolerance_too_fine: the enclosure meets 1e-6, but not the requested tolerance. work_spent: "
        "the request exhausted its allowance of work. time_spent: the time limit of the service ended the search. "
        "empty_range: the range of error rates contains no point of the curve, or none is proved to lie "
        "in the range. no_finite_end: no finite upper bound is proved. long_list: the list has more wide "
        "numbers than the second engine evaluates. small_tail: the second engine cannot represent the number. "
        "many_different_steps: the run has too many different steps for the second engine. small_loss: the "
        "privacy loss is too small for the second engine. one_engine: the request allows only one engine. "
        "neighbour_not_served: the neighbour of the calibrated value is not served. range_end: no number of the "
        "calibration range fails. undecided_target: the enclosure of a calibration target contains its limit. "
        "engine_resolution: every engine was evaluated at its finest resolution.",
        examples=["two_theorems"],
    ),
]
