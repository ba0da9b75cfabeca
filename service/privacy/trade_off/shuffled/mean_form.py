"""Pairs of laws of counts that are means over independent categories: the mean form of shuffled reports.

Every one of n reports falls into category i with probability w_i, independently. Under the reference measure W^n, the
laws of the counts N_i have the densities dP/dW^n = (1/n) sum_i N_i alpha_i and dQ/dW^n = (1/n) sum_i N_i beta_i. Here
sum w_i alpha_i = sum w_i beta_i = 1. So a category is drawn from w_i alpha_i (P) or w_i beta_i (Q) for one report and
from w_i for the other n - 1. With E = e^eps and X_i = alpha_i - E beta_i,

    delta(eps) = E (mean of n independent X)_+.

Let every other person report by the law w, and one person by p_a (P) or p_b (Q). Then the counts of shuffled reports
have this form with alpha = p_a/w and beta = p_b/w: shuffling leaves the counts, and the density of n reports, averaged
over the n places of the own report, is the mean of the ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import comb
from typing import Any, Final, final

DIGITS: Final = 40
"""Decimal digits of exponentials, and of their differences from 1. Their error is far below the rounding of doubles,
even times 1e9 reports."""


@lru_cache(maxsize=512)
def exponential(exponent: float) -> Fraction:
    """Return e^exponent as a fraction, such that e^exponent - 1 has `DIGITS` digits, too.

    Parameters
    ----------
    exponent : float
        Any double.

    Returns
    -------
    Fraction
        The exponential.
    """
    import mpmath.libmp

    many_digits: Any = mpmath.libmp
    bits = many_digits.dps_to_prec(DIGITS) + max(-math.frexp(exponent)[1], 0)
    value = many_digits.mpf_exp(many_digits.from_float(exponent), bits)
    mantissa, power = int(value[1]), int(value[2])
    return Fraction(mantissa << power) if power >= 0 else Fraction(mantissa, 1 << -power)


@final
@dataclass(frozen=True)
class MeanForm:
    """Pair of laws of the counts of n reports in categories ("mean form").

    One report is in category i with probability w_i alpha_i (H1) or w_i beta_i (H0), the others with probability w_i.

    Attributes
    ----------
    reports : int
        Number n of reports.
    weights, present, absent : tuple of Fraction
        w_i > 0, alpha_i and beta_i, exactly.
    """

    reports: int
    weights: tuple[Fraction, ...]
    present: tuple[Fraction, ...]
    absent: tuple[Fraction, ...]

    @staticmethod
    def of(reports: int, *categories: tuple[Fraction, Fraction, Fraction]) -> MeanForm:
        """Return the pair of laws with the categories (w_i, alpha_i, beta_i); a category of weight 0 is left out."""
        weights, present, absent = zip(*(each for each in categories if each[0] > 0), strict=True)
        return MeanForm(reports, weights, present, absent)

    def swapped(self) -> MeanForm:
        """Return the pair with swapped hypotheses."""
        return MeanForm(self.reports, self.weights, self.absent, self.present)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether swapped hypotheses give the same pair of laws, up to the names of the categories."""
        return sorted(zip(self.weights, self.present, self.absent, strict=True)) == sorted(
            zip(self.weights, self.absent, self.present, strict=True)
        )

    @cached_property
    def largest_ratio(self) -> Fraction:
        """Largest ratio alpha_i/beta_i, attained by the counts of n reports in one category."""
        return max(one / other for one, other in zip(self.present, self.absent, strict=True) if other > 0)

    @cached_property
    def outcomes(self) -> int:
        """Number of possible vectors of counts."""
        return comb(self.reports + len(self.weights) - 1, len(self.weights) - 1)

    def terms(self, threshold: Fraction) -> tuple[Fraction, ...]:
        """Return X_i = alpha_i - E beta_i for a threshold E = e^eps.

        Parameters
        ----------
        threshold : Fraction
            E.

        Returns
        -------
        tuple of Fraction
            X_i of each category.
        """
        return tuple(one - threshold * other for one, other in zip(self.present, self.absent, strict=True))
