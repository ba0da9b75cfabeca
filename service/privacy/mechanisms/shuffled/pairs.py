"""Pairs of laws of shuffled reports: one that dominates every data set, and several that a data set attains.

**Setting.** n persons answer by one randomiser, whose law of a report is p_x for the value x. Let p = e^eps0 and p_x <=
p p_y for all values. The reports are published in a uniformly random order. One person holds a (H1) or b (H0), and the
others hold arbitrary values, the same under both hypotheses. Let E = e^eps with 1 <= E <= p; delta is 0 beyond, and
swapped hypotheses cover eps < 0.

**Mean over clones.** Let lambda b0 be a measure of mass lambda <= 1 with p_x >= lambda b0 for every value x, and p_a,
p_b absolutely continuous with respect to b0. Every report of another person is a draw from b0 (a clone) with
probability lambda, and otherwise a draw from a residual law of that person. Reveal to the attacker which reports are
residual, and whose. The number C of clones is Bin(n - 1, lambda), and neither C nor the residual reports depend on the
hypothesis. The other C + 1 reports in random order have, with respect to b0^{C+1}, the density mean of p_a/b0 (H1) or
p_b/b0 (H0). So with g(m) = E (mean of m independent (p_a - E p_b)/(lambda b0) under b0)_+,

    delta <= lambda sum_C Bin(C; n - 1, lambda) g(C + 1) = sum_m Bin(m; n, lambda) (m/n) g(m) = E (mean of n X)_+,

where the independent X are (p_a - E p_b)/(lambda b0) under b0 with probability lambda, and 0 otherwise. That is a mean
form (`trade_off/shuffled/mean_form.py`). Without residuals (lambda b0 = the law of all others) it is an equality.

**Any randomiser, upper bound.** Choose lambda b0 = max(p_a, p_b)/p, which is at most every p_x. Then X = p (p_a - E
p_b)/max(p_a, p_b) on clones. Where p_a >= p_b, p_b/p_a is in [1/p, 1] and X in [p (1 - E), p - E]; elsewhere X is in [1
- p E, p (1 - E)]. So X is in [l, u] with l = 1 - p E <= 0 <= u = p - E. Moreover E X = 1 - E, and E X_+ = int (p_a - E
p_b)_+ <= (p - E)/(p + 1). This bound is the profile of randomised response, which dominates every eps0-DP pair
(Kairouz, Oh, Viswanath 2015). Let

    X* = p - E, 1 - p E, 0 with the probabilities 1/(p + 1), 1/(p + 1), (p - 1)/(p + 1).

It has the mean 1 - E, and E X*_+ = (p - E)/(p + 1). The function k -> E (X - k)_+ is convex. At k = u it is 0, at k = 0
at most E X*_+, and at k = l it is E X - l, equal for X and X*. So on [l, 0] and on [0, u] it is at most the chord,
which is E (X* - k)_+. Hence X is at most X* in convex order. Sums of independent terms inherit this order, and x -> x_+
is convex: delta <= E (mean of n X*)_+. The pair of X* has the ratios (alpha, beta) = (p, 1), (1, p), (0, 0), whatever E
is, and dominates at every eps. It is the pair of Feldman, McMillan and Talwar 2023 (clones with probability 2/(p + 1));
their erratum restricts the use of that paper's proof, and the argument here does not use the step that failed.

**k-ary response, upper bound.** With c = 1/(p + k - 1), every p_x is c for each value, and (p - 1) c more for x. Choose
lambda b0 = c for each value. X is p - E at a, 1 - p E at b and 1 - E at the k - 2 other values, each with probability
c. It is 0 with probability (p - 1) c.

**Lower bounds.** If all others hold one value d, the bound above is an equality with lambda b0 = p_d:

- two values, all others hold b: (alpha, beta) = (p, 1), (1/p, 1) with probabilities 1/(p + 1), p/(p + 1); more general,
  m others hold 1: `trade_off/shuffled/ones.py`;
- k >= 3 values, all others hold a third value: (p, 1), (1, p), (1, 1), (1/p, 1/p) with c, c, (k - 3) c, p c;
- k >= 3 values, all others hold a: (1, 1/p), (1, p), (1, 1) with p c, c, (k - 2) c, and the same with b for a.

**Adaptive rounds.** Pairs that dominate each round compose (Zhu, Dong, Wang 2022, Theorem 10). A data set that attains
a pair in every round composes this pair. A randomiser that reads the reports of earlier places of the shuffled order is
covered, because the argument holds at each place given the past. A randomiser that reads the reports of earlier persons
is not: with n = 2, eps0 = 1, and a second person who repeats the first report, delta(0.3) is 0.368, above 0.269.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from service.privacy.numerics.rounding import UNIT_ROUNDOFF, rounded
from service.privacy.trade_off.shuffled.mean_form import MeanForm, exponential

ONE: Final = Fraction(1)
RATIO_ERROR: Final = 4 * UNIT_ROUNDOFF
"""Relative distance of both roundings of p from p."""


def ratio_of(epsilon: float, side: int) -> Fraction:
    """Return e^epsilon, epsilon in nats, as an exact fraction whose difference from 1 is a double.

    The difference is rounded down (`side` -1) or up (1). So no positive epsilon has the ratio 1.
    """
    return 1 + Fraction(rounded(exponential(epsilon) - 1, side))


def clones(reports: int, p: Fraction) -> MeanForm:
    """Return the pair that dominates `reports` shuffled reports of any eps0-DP randomiser.

    `p` is at least e^eps0. The categories have the weights 1/(p + 1), 1/(p + 1) and (p - 1)/(p + 1). One report is
    in the first category with probability p/(p + 1) under H1 and 1/(p + 1) under H0, otherwise in the second.
    """
    likely = 1 / (p + 1)
    return MeanForm.of(reports, (likely, p, ONE), (likely, ONE, p), ((p - 1) * likely, Fraction(0), Fraction(0)))


def blanket(reports: int, options: int, p: Fraction) -> MeanForm:
    """Return the pair that dominates `reports` shuffled k-ary randomised responses, k = `options`.

    Each response is eps0-DP, and `p` is at least e^eps0. The pair is that of the privacy blanket.
    """
    c = 1 / (p + options - 1)
    nothing = Fraction(0)
    return MeanForm.of(
        reports, (c, p, ONE), (c, ONE, p), ((options - 2) * c, ONE, ONE), ((p - 1) * c, nothing, nothing)
    )


def third_value(reports: int, options: int, p: Fraction) -> MeanForm:
    """Return the pair of laws of shuffled k-ary randomised responses, k >= 3, if all others hold a third value.

    The person has the first value under H1 and the second under H0. There are `reports` responses with k =
    `options`, each eps0-DP, and `p` is at most e^eps0. This data set attains the pair.
    """
    c = 1 / (p + options - 1)
    return MeanForm.of(reports, (c, p, ONE), (c, ONE, p), ((options - 3) * c, ONE, ONE), (p * c, 1 / p, 1 / p))


def own_value(reports: int, options: int, p: Fraction) -> MeanForm:
    """Return the pair of laws of shuffled k-ary randomised responses if all others hold the person's value of H1.

    Under H0 the person has another value. There are `reports` responses with k = `options`, each eps0-DP, and `p`
    is at most e^eps0. This data set attains the pair.
    """
    c = 1 / (p + options - 1)
    return MeanForm.of(reports, (p * c, ONE, 1 / p), (c, ONE, p), ((options - 2) * c, ONE, ONE))
