"""What is read: a contour, which gives three integrals at any threshold, enclosed or about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.privacy.numerics.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Integrals:
    """Enclosures of I0, I1, ID at thresholds c: `e^{log_scale} [lower, upper]`, arrays of shape (3, C).

    `density`: about that of the loss under H0, on the scale of I0, shape (C,).
    """

    log_scale: FloatArray
    lower: FloatArray
    upper: FloatArray
    density: FloatArray


class InversionContour(Protocol):
    """What is read: a contour that crosses the real axis at `theta`, laid out for thresholds near `center`, for a loss
    (or its core) of about this `deviation`.

    Or as many contours as there are thresholds, all on the same side of the poles 0 and 1; the three are arrays (C,)
    then, and so many thresholds may be asked for again and again, one after the other.
    """

    @property
    def theta(self) -> float | FloatArray:
        """Where it crosses the real axis."""
        ...

    @property
    def center(self) -> float | FloatArray:
        """A threshold."""
        ...

    @property
    def deviation(self) -> float | FloatArray:
        """Of the loss."""
        ...

    @property
    def score_tables(self) -> dict[int, tuple[FloatArray, FloatArray, FloatArray]]:
        """Tables from which the search for thresholds begins, by integral: kept, as every question needs them."""
        ...

    def integrals(self, thresholds: FloatArray) -> Integrals:
        """Enclosures of I0, I1, ID at thresholds (C,)."""
        ...

    def approximate(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """I0, I1, ID and the density of the loss under H0, shape (4, C), and ln of their scales, without bounds."""
        ...


def is_beyond(contour: InversionContour, pole: float) -> bool:
    """Whether all of it lies on the right of a pole."""
    theta = contour.theta
    return bool((theta.min() if isinstance(theta, np.ndarray) else theta) > pole)
