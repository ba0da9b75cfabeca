"""Parts of a curve that are attacks with about the largest mu of Gaussian differential privacy."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import special

from service.privacy.questions.gaussian_profile import gaussian_mu
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log_ends

TRIED: Final = (0.0, 1.5, 3.0, 4.5, 6.0)
"""Log slopes at which parts of a curve are compared, in units of mu."""
FAINT: Final = 1e-300
"""Distance of a delta from 1 below which parts are compared as if it were this distance."""
ALIKE, MOST_PARTS = 1e-3, 8
"""Relative distance of mu at which two parts are both searched, and largest number of parts."""


def strongest_parts(curve: AbstractTradeOff, *, is_even: bool) -> list[AbstractTradeOff]:
    """Return the parts of a curve with about the largest mu of Gaussian DP, as attacks for lower bounds.

    `curve` is the largest convex function below all its parts. `is_even` states whether the range of both error
    rates begins at one number, so that a curve and its inverse have one mu.
    """
    parts, others = list[AbstractTradeOff](), set[int]()
    for part in curve.hull_of:
        if not (is_even and id(part) in others):
            parts.append(part)
            others.add(id(part.reversed()))
    if len(parts) == 1:
        return parts
    scale = -2 * special.ndtri(0.5 * max(1 - max(part.profile_at(0.0).upper for part in parts), FAINT))
    c = scale * np.array(TRIED)
    found = [
        float(max(gaussian_mu(c, log_ends(each.profile(c))[1]).max() for each in (part, part.reversed())))
        for part in parts
    ]
    most = max(found)
    close = [part for part, mu in zip(parts, found, strict=True) if mu >= most * (1 - ALIKE)]
    return sorted(close, key=lambda part: -found[parts.index(part)])[:MOST_PARTS]
