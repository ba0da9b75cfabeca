"""Reasons for enclosures that are wider than the requested tolerance."""

from __future__ import annotations

from enum import StrEnum


class WidthLimit(StrEnum):
    """Reason why an enclosure is wider than the tolerance; each reason has one sentence of advice in responses."""

    NO_BOUNDS = "no_bounds"
    """The engine computes an approximation that has no error bound."""
    SAMPLING_ERROR = "sampling_error"
    """The enclosure is a confidence interval of random draws."""
    TWO_THEOREMS = "two_theorems"
    """The bounds come from different theorems, and no finer theorem is implemented."""
    TOLERANCE_TOO_FINE = "tolerance_too_fine"
    """The enclosure meets 1e-6, but not the requested finer tolerance."""
    WORK_SPENT = "work_spent"
    """The numbers of the request share a limit of work, which is reached."""
    TIME_SPENT = "time_spent"
    """The time limit of the service ended the search, on a slow or busy machine."""
    EMPTY_RANGE = "empty_range"
    """No point of the curve, or perhaps none, lies in the range of the question."""
    NO_FINITE_END = "no_finite_end"
    """The engine proves no finite upper bound."""
    LONG_LIST = "long_list"
    """The second engine evaluates few numbers of a list, and more are wide."""
    SMALL_TAIL = "small_tail"
    """The number is below what the second engine can represent: its masses are doubles."""
    MANY_STEPS = "many_different_steps"
    """The run has too many different steps for the second engine."""
    SMALL_LOSS = "small_loss"
    """The privacy loss is too small for the second engine: the run reveals next to nothing."""
    ONE_ENGINE = "one_engine"
    """The request names an engine, whose enclosure no other engine narrows."""
    NOT_SERVED = "neighbour_not_served"
    """Calibration: the neighbour of the value is outside the range that the service computes."""
    RANGE_END = "range_end"
    """Calibration: no number of the computed range fails."""
    UNDECIDED_TARGET = "undecided_target"
    """Calibration: the enclosure of a target contains its limit at the value or next to it."""
    ENGINE_RESOLUTION = "engine_resolution"
    """Every engine that covers the mechanism was evaluated at its finest resolution."""
