"""Protocol of inversion contours, which give three integrals at any threshold, enclosed or approximate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from service.privacy.numerics.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Integrals:
    """Enclosures of I0, I1, ID at thresholds c: `e^{log_scale} [lower, upper]`, arrays of shape (3, C).

    `density` is the approximate density of the loss under H0, on the scale of I0, shape (C,).
    """

    log_scale: FloatArray
    lower: FloatArray
    upper: FloatArray
    density: FloatArray


class InversionContour(Protocol):
    """Contour that crosses the real axis at `theta`, laid out for thresholds near `center`.

    The tilted loss, or its core, has about the standard deviation `deviation`, which only steers. The object may also
    stand for as many contours as there are thresholds, all on the same side of the poles 0 and 1. `theta`, `center`
    and `deviation` are then arrays (C,), and each request has a threshold for each contour.
    """

    @property
    def theta(self) -> float | FloatArray:
        """Tilt at which the contour crosses the real axis."""
        ...

    @property
    def leftmost(self) -> float:
        """Smallest tilt at which one of the contours crosses the real axis."""
        ...

    @property
    def center(self) -> float | FloatArray:
        """Threshold for which the contour is laid out."""
        ...

    @property
    def deviation(self) -> float | FloatArray:
        """Approximate standard deviation of the tilted loss, or of its core."""
        ...

    @property
    def score_tables(self) -> dict[int, tuple[FloatArray, FloatArray, FloatArray]]:
        """Tables by integral from which the search for thresholds begins, cached because every request needs them."""
        ...

    def integrals(self, thresholds: FloatArray) -> Integrals:
        """Return enclosures of I0, I1, ID at thresholds (C,)."""
        ...

    def approximate(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return I0, I1, ID and the P0-density of the loss, shape (4, C), and ln of their scales, without bounds."""
        ...
