r"""An independent check of privacy bounds in ball arithmetic. It uses python-flint and nothing else of this project.

The checker answers one question: does a claimed number hold for a run? It answers *proved*, *refuted* or *not decided*.

**The law.** One step compares Q = N(0, 1) with P = sum_i w_i N(s_i / sigma, 1), where s_i >= 0. Q is the law of the
output without the record, P the law with it, in units of the noise sigma. Poisson sampling at rate q of a query with
sensitivity 1 has w = (1 - q, q) and s = (0, 1). A plain Gaussian step has w = (1), s = (1). A *mirrored* step compares
sum_i w_i N(-s_i / sigma, 1) with sum_i w_i N(s_i / sigma, 1). It is the pair of one replaced record. These pairs
dominate all neighbouring data sets (Zhu, Dong, Wang 2022, Theorem 11; Lebeda et al. 2025, Proposition 13). The checker
takes the pair as the definition and proves numbers about it.

Let r(y) = sum_i w_i exp(s_i y / sigma - s_i^2 / (2 sigma^2)) and l = ln r. The loss is L(y) = l(y), or l(y) - l(-y) if
mirrored. For complex z, M(z) = E_Q e^{zL} = int phi(y) e^{z l(y)} dy, with a further factor e^{(1 - z) l(-y)} if
mirrored. Losses of independent steps add up, so M of a run is the product of the M of its steps, to the power of their
counts. Let S be the loss of the run, and delta(eps) = E_P (1 - e^{eps - S})_+ for any real eps ("add"). The direction
"remove" swaps P and Q: E_P e^{-zS} = M(1 - z), so M(1 - z) takes the place of M(z).

**1. The contour.** For theta > 1, u(x) = e^{(theta - 1) x} delta(x) is continuous and integrable. Its Fourier transform
is g(t) = M(z) / (z (z - 1)) with z = theta + it. Let h > 0 and W = 2 pi / h. Then sum_m u(x + mW) converges uniformly,
and its Fourier coefficients g(kh) / W are absolutely summable, so that Poisson's formula holds at each x:

    sum_m e^{(theta - 1) m W} delta(eps + mW) = (h / 2 pi) sum_k g(kh) e^{-(theta - 1) eps - ikh eps}.

**2. Terms with m != 0.** For c > 1, (1 - e^{-s})_+ <= e^{(c - 1) s} and so delta(x) <= M(c) e^{-(c - 1) x}. For c < 0,
delta(x) = 1 - e^x + e^x E_Q (1 - e^{S - x})_+, and the last term is at most M(c) e^{-(c - 1) x}. Terms with m > 0 are
at most M(c) e^{-(c - 1) eps} e^{-(c - theta) m W}, with c > theta. Terms with m < 0 are 1 - e^{eps + mW}, exactly
summed, plus at most M(c) e^{-(c - 1) eps} e^{-(theta - c) |m| W}, with c < 0. The sums over m are geometric.

**3. Terms with |k| > K.** Let 0 < eta s_i / sigma < pi / 2. Then r(y + i eta) has a positive real part, and its
argument is in [0, pi / 2). Moving the path of M to y + i eta gives |M(theta + it)| <= B(theta, t, eta). The bound is:

    B(u, t, eta) = int |phi(y + i eta)| |r(y + i eta)|^u e^{-t arg r(y + i eta)} dy.

A mirrored step has the further factor |r(-y - i eta)|^{1 - u}, and arg r(y + i eta) - arg r(-y - i eta) >= 0. B falls
in t. Here |z (z - 1)| >= t^2. With Kh <= T <= (K + 1) h, the terms left out are at most B(T) e^{-(theta - 1) eps} (1 +
h / T) / (pi T).

**4. The inner integral.** For t >= 0, M(z) is a trapezoidal sum on y = jd + i eta / 2. Poisson's formula, with the path
moved up to i eta or down to the real axis, bounds the error. Let u = theta and x = e^{-pi eta / d}. The bound is (B(u,
0, 0) + B(u, 0, eta)) x / (1 - x), since B falls in t. M(1 - z) is the conjugate of M(1 - theta + it), with u = 1 -
theta.

**5. Far y.** ln|r(y + i eta)| is at most 0 for y <= 0. For y >= Y >= 0 it is at most ln r(Y) + s_max (y - Y) / sigma,
because l' is at most s_max / sigma. It is at least ln w_0 if a shift s = 0 has the weight
w_0, because real parts are positive. It is else at least ln cos(eta s_max / sigma) + m_1 y - m_2 / 2 with
m_k = sum_i w_i (s_i / sigma)^k (Jensen). So integrands are at most phi(y) e^{A + b|y|} on each side, and the part
beyond Y is at most e^{A + b^2 / 2} Q(Y - b), Q the normal upper tail. For nodes beyond Y, Y - d takes the place of Y
if Y - d >= b, where the bound falls.

**6. Rare samples.** Each kind of step has a cut c and a width tau > 0; plain steps and "remove" have no cuts. Let w(y)
= Q((y - c) / tau), Q the normal upper tail. Weights w and 1 - w divide P and Q into a frequent and a rare part. Let B
and R = M - B be the transforms of these parts, and delta_w the delta of the frequent parts of all N steps. For "add"
and c' > 1, 0 <= delta_w <= B(c')^N e^{-(c' - 1) eps}. The rest, delta - delta_w, belongs to positive measures, so that
sections 1 and 2 hold for it with M^N - B^N in the place of M. M^N - B^N is -M^N expm1(N log1p(-R / M)), and at most N
R(c') M(c')^{N - 1} for real c'. For m < 0, c' = 1 gives the bound of all terms. With |M(z)|, |B(z)| <= M(theta),
section 3 holds with N B(T) M(theta)^{N - 1}, where B(T) is now the bound for R. Moving the path of Q, |Q(x + i eta)| <=
e^{eta^2 / 2} Q(x): bounds of weighted integrands on y + i eta have a further factor e^{(eta / tau)^2 / 2}. For several
kinds, N R / M is summed over the kinds.

**Single steps and Gaussian runs.** The best test of one step is {y > y*} with r(y*) = e^eps, because L rises in y.
A run of plain steps is one Gaussian step. The best test at alpha is the one of these tests with Q(y > y*) = alpha.

**Readings.** delta falls in eps, so epsilon at delta is at most eps if delta(eps) <= delta. The advantage is delta(0).
The largest power at a false positive rate alpha is the minimum over E > 0 of F(E) = alpha E + delta(ln E), and F is
convex. Any E gives an upper bound. Let E0 < E1 < E2 with F1 <= F0 and F1 <= F2. The chords extended beyond E1 give
min F >= F1 - max((F2 - F1) (E1 - E0) / (E2 - E1), (F0 - F1) (E2 - E1) / (E1 - E0)).

Numbers that only *choose* (theta, h, K, eta, d, Y, c, tau) are doubles, in `guide.py`. No proof rests on them: with
other choices the balls are wider, and the answer is "not decided".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from flint import arb, ctx

from privacy_bounds.checker.readings import largest_power, profile
from privacy_bounds.checker.steps import Direction, NotDecided, Step, ball, sampled_step

__all__ = ["CheckerVerdict", "Direction", "NotDecided", "Step", "check_delta", "check_power", "sampled_step"]
Number = float | Fraction


@dataclass(frozen=True)
class CheckerVerdict:
    """Verdict of the checker on one claim, with the reason.

    `lower` and `upper` enclose the number compared with the claim, as decimals, or are None if the proof broke off or a
    claim of at least 1 needs no number.
    """

    status: Literal["proved", "refuted", "not_decided"]
    reason: str
    lower: str | None = None
    upper: str | None = None


def check_delta(steps: Sequence[Step], epsilon: Number, delta: Number, direction: Direction) -> CheckerVerdict:
    """Decide whether a run of these steps has a privacy profile of at most `delta` at `epsilon`.

    `epsilon` is in nats. The status is "not_decided" if the enclosure contains `delta` or the proof is out of reach.
    If proved, the run's epsilon at `delta` is at most `epsilon`. `direction` is "add" or "remove" for the record.
    """
    point = Fraction(epsilon)
    return _decide(lambda nats: profile(steps, direction, float(point), nats)(ball(point)), Fraction(delta))


def check_power(steps: Sequence[Step], alpha: Number, power: Number, direction: Direction) -> CheckerVerdict:
    """Decide whether no test with the false positive rate `alpha` has a larger power than `power` against these steps.

    The status is "not_decided" if the enclosure contains `power` or the proof is out of reach. `direction` is "add" or
    "remove" for the record.
    """
    return _decide(lambda nats: largest_power(steps, direction, Fraction(alpha), nats), Fraction(power))


def _decide(enclosure: Callable[[int], arb], claimed: Fraction) -> CheckerVerdict:
    if claimed >= 1:
        return CheckerVerdict("proved", "no probability is above 1")
    found, reason = None, ""
    for nats in (26, 48):  # relative accuracies, e^-26 and e^-48
        with ctx.workprec(64 + 2 * nats):
            try:
                found = enclosure(nats)
            except (NotDecided, ArithmeticError, ValueError) as error:
                reason = str(error) if isinstance(error, NotDecided) else "a double that chooses the proof overflows"
                break
            if found <= ball(claimed):
                return CheckerVerdict("proved", "the upper bound is at most the claim", *_outward_decimals(found))
            if found > ball(claimed):
                return CheckerVerdict("refuted", "the lower bound is above the claim", *_outward_decimals(found))
            reason = "the claim lies inside the enclosure"
            if not found.rad() < abs(found.mid()):
                break
    return CheckerVerdict("not_decided", reason, *(() if found is None else _outward_decimals(found)))


def _outward_decimals(found: arb) -> tuple[str, str]:
    # the printed radius covers the rounding
    margin = abs(found) * arb(10) ** -28
    return (found - margin).lower().str(30, radius=False), (found + margin).upper().str(30, radius=False)
