"""Why an enclosure is wider than the tolerance that was asked for."""

from __future__ import annotations

from enum import StrEnum


class WidthLimit(StrEnum):
    """Reason for a wide enclosure. Each has one sentence of advice on the wire."""

    NO_BOUNDS = "no_bounds"
    """The engine computes an approximation that has no error bound."""
    SAMPLING_ERROR = "sampling_error"
    """The enclosure is a confidence interval of random draws."""
    TWO_THEOREMS = "two_theorems"
    """The ends come from different theorems, and no finer theorem is implemented."""
    TOLERANCE_TOO_FINE = "tolerance_too_fine"
    """The enclosure meets 1e-6, but not the finer tolerance that was asked for."""
    WORK_SPENT = "work_spent"
    """The numbers of the request share an allowance of work, which is used up."""
    EMPTY_RANGE = "empty_range"
    """No point of the curve, or perhaps none, lies in the range of the question."""
    NO_FINITE_END = "no_finite_end"
    """The engine proves no finite upper end."""
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
    """Of a calibration: the neighbour of the value is outside what the service computes."""
    RANGE_END = "range_end"
    """Of a calibration: no number of the range that was computed fails."""
    UNDECIDED_TARGET = "undecided_target"
    """Of a calibration: the enclosure of a target contains its limit at the value or beside it."""
    ENGINE_RESOLUTION = "engine_resolution"
    """Every engine that covers the mechanism was evaluated at its finest resolution."""
