"""What the steps of one kind add to a run: a summand of K on the real axis, and one on every vertical line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.unit_circle import ComplexArray

_LARGEST_CHUNK: Final = 1_000_000
"""Array elements of one vectorised evaluation at several tilts."""


@dataclass(frozen=True, slots=True)
class RealCumulants:
    """K, K', K'' of the whole run at real tilts, and a bound of |computed K - true K|; arrays of the tilts' shape.

    `truncation` is the part of `error` that is not rounding: quadrature and the ends of the grid.
    """

    value: FloatArray
    first: FloatArray
    second: FloatArray
    error: FloatArray
    truncation: FloatArray

    def of(self, places: slice) -> RealCumulants:
        """Those at some of the tilts."""
        held = self.value, self.first, self.second, self.error, self.truncation
        return RealCumulants(*(each[places] for each in held))

    @staticmethod
    def concatenate(pieces: list[RealCumulants]) -> RealCumulants:
        """The cumulants of several runs of tilts as one."""
        return RealCumulants(
            np.concatenate([piece.value for piece in pieces]),
            np.concatenate([piece.first for piece in pieces]),
            np.concatenate([piece.second for piece in pieces]),
            np.concatenate([piece.error for piece in pieces]),
            np.concatenate([piece.truncation for piece in pieces]),
        )


def in_chunks(evaluate: Callable[[FloatArray], RealCumulants], tilts: FloatArray, size: int) -> RealCumulants:
    """The cumulants at all tilts, so many at a time that memory is bounded; `size`: array elements of one tilt."""
    chunk = max(1, _LARGEST_CHUNK // size)
    pieces = [evaluate(tilts[i : i + chunk]) for i in range(0, len(tilts), chunk)]
    return pieces[0] if len(pieces) == 1 else RealCumulants.concatenate(pieces)


@dataclass(frozen=True, slots=True)
class LineValues:
    """K(theta + i t_k) - K(theta) at the nodes t_k = k h, shape (nodes + 1,), and its errors.

    `error` bounds what the error does to the exponential: |e^{true - computed} - 1| <= e^error - 1.
    """

    difference: ComplexArray
    error: FloatArray


class StepTransform(Protocol):
    """All steps of one kind in a run, sum N_i ln M_i, before any line is chosen."""

    @property
    def size(self) -> int:
        """Array elements of one evaluation: the unit of the engine's cost."""
        ...

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """K, K', K'' of these steps at real tilts, shape (S,), with a bound of the error of K."""
        ...


class StepLine(Protocol):
    """The same steps on the line Re z = theta."""

    @property
    def origin(self) -> tuple[float, float]:
        """K(theta) to full precision, and a bound of its error."""
        ...

    def values(self, step: float, nodes: int) -> LineValues:
        """K(theta + i k step) - K(theta) for k = 0..nodes, and bounds of the errors."""
        ...
