"""Choices of contours, cuts, windows and node counts in doubles. Nothing is proved from them."""

import math
from collections.abc import Callable

from flint import acb, arb

from privacy_bounds.checker.steps import Direction, NotDecided, Run, Step, exponents, growth


class Guide:
    """Choices of the parameters of a `Contour` in double precision. Nothing is proved from them.

    `Contour` evaluates the proof of the package docstring in ball arithmetic, with any parameters. Good parameters make
    its bounds narrow and its sums short.
    """

    def __init__(self, run: Run, direction: Direction, near: float = 0.0, nats: int = 0) -> None:
        (self.steps, self.mu_squared), self.beyond, self.cuts = run, 1.0, dict[Step, float]()
        self.flip, self.nats, self._near = direction == "remove", nats + 12.0, near
        self.widths = {step: 0.1 / float(max(step.means)) for step in self.steps}

    def place_contour(self) -> None:
        """Choose the contour in place: `theta`, the distance `h` of nodes, their `count`, and `cuts` of the outcomes.

        Choose also the exponents of the bounds in sections 2 and 6 of the proof in the package docstring.
        """
        self._try_cuts({})
        gap = self._near - sum(step.count * self._loss(step, 0.0) for step in self.steps)
        if self.count > 1_500 and self._target > -200 and gap > 0 and not self.flip and not self.mu_squared:
            before = dict(vars(self))
            shares = (1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12) if self._is_negligible(self._outcomes_at(gap / 12)) else ()
            if not any(self._try_cuts(self._outcomes_at(gap / x)) for x in shares) or 2 * self.count > before["count"]:
                vars(self).update(before)

    def _outcomes_at(self, excess: float) -> dict[Step, float]:
        size = {step: self._loss(step, 0.0) + excess for step in self.steps}
        return {s: minimise(lambda y, s=s: abs(self._loss(s, y) - size[s]), 0.0, 10 * self.widths[s], 30) for s in size}

    def _loss(self, step: Step, y: float) -> float:
        return float(exponents(step, step.terms(), acb(y))[1].real)

    def _try_cuts(self, cuts: dict[Step, float]) -> bool:
        # Section 6 of the proof in the package docstring. False: the frequent part is too large for the accuracy aimed
        # at.
        self.cuts = cuts
        x = _minimise_positive(lambda x: self.log_bound(1 + x) - math.log(x) - math.log1p(x))
        self.theta = 1 + x
        target = self._target = self.log_bound(self.theta) - math.log(x) - math.log1p(x) - self.nats
        if cuts and not self._is_negligible(cuts):
            return False

        def period(shift: float) -> float:
            return (self.log_bound(self.theta + shift) - target) / abs(shift)

        self.above = self.theta + _minimise_positive(period)
        self.below = 1.0 if cuts else -_minimise_positive(lambda x: period(-self.theta - x))
        self.h = 2 * math.pi / max(period(self.above - self.theta), period(self.below - self.theta))
        end, self._scale = min((self._height(scale), scale) for scale in ((6, 8) if cuts else (2.5, 5, 10, 20, 40)))
        self.count = math.ceil(end / self.h)
        self.more_bits = 32 + sum(s.count for s in self.steps).bit_length() + max(0, int(math.log2(end + self.theta)))
        return True

    def _is_negligible(self, cuts: dict[Step, float]) -> bool:
        def excess(x: float) -> float:
            return sum(s.count * self.log_moment(s, 1 + x, part=-1) for s in self.steps) - x * self._near

        self.cuts = cuts
        self.beyond = 1 + _minimise_positive(excess)
        return excess(self.beyond - 1) < self._target

    def eta(self, step: Step, scale: float = 0.0) -> float:
        """Return the distance eta by which the integration path of M is moved to Im y = eta, in the plane of outcomes.

        M = E e^{zL} is the transform of the loss L of a step, an integral over outcomes y in units of the noise. The
        distance serves the bound of omitted nodes (section 3 of the proof, in the package docstring). `scale` is eta in
        units of the width of the smooth cut, a threshold of y between frequent and rare outcomes (section 6 of the
        proof). Without cuts the unit is count^(-1/2). eta is limited, so that the likelihood ratio keeps a positive
        real part on the path.
        """
        unit = self.widths[step] if self.cuts else 1 / math.sqrt(step.count)
        return min(4.5 * math.pi * self.widths[step], (scale or self._scale) * unit)

    def strip(self, step: Step, part: int) -> float:
        """Return how far the integration path moves up for the error bound of the trapezoidal sum of a step.

        The path is moved from the real axis of outcomes y to Im y = the result. The sum computes the transform of the
        step's loss over outcomes above the cut (`part` 1, the rare ones), below the cut (-1), or all (0).
        """
        strip = 9 * self.widths[step] if part else math.sqrt(2 * (self.nats + math.log(step.count)))
        return min(4.5 * math.pi * self.widths[step], strip)

    def window(self, step: Step, u: float, part: int) -> tuple[float, float]:
        """Return an interval of outcomes y beyond which the integrand for a part of a step is negligible.

        The integral is the transform M(u) of the step's loss over outcomes above the cut (`part` 1, the rare ones),
        below the cut (-1), or all (0).
        """
        strip = self.strip(step, part)
        nats = 2 * self.nats + math.log(step.count) - self.log_moment(step, u, part=part)
        nats += part * part * (strip / self.widths[step]) ** 2 / 2
        ends = [0.0, 0.0]
        for place, side in [(0, -1), (1, 1)] * 3:
            a, b = map(float, growth(step, arb(u), strip, side, arb(ends[place])))
            ends[place] = max(1.0, b + math.sqrt(max(2 * (a + nats) + b * b, 1.0)) + 1)
        enough = max(1.0, math.sqrt(2 * abs(nats)) * self.widths[step] - self.cuts.get(step, 0.0))
        return -min(ends[0], enough) if part > 0 else -ends[0], ends[1]

    def log_moment(self, step: Step, u: float, t: float = 0.0, eta: float = 0.0, part: int = 0) -> float:
        """Return approximate ln B(u, t, eta), the upper bound of |M(u + it)| for the transform M of a step's loss.

        For t = eta = 0 it is ln M(u). B is an integral along y + i eta (section 3 of the proof, in the package
        docstring) over the rare part of the outcomes (`part` 1), the frequent part (-1), or all (0). Raise NotDecided
        if the sum would have more than 40 000 terms.
        """
        spacing = min(0.1, 3 * self.widths[step])
        cells = step.cells.setdefault(eta, {})
        reach = [12 + max(0.0, float(growth(step, arb(u), 0.0, side, arb(0))[1])) for side in (-1, 1)]
        cut, width = self.cuts.get(step, 0.0), self.widths[step]
        reach[1] = min(reach[1], cut + 100 * width) if part < 0 else reach[1]
        if sum(reach) > 40_000 * spacing:
            raise NotDecided("the noise is too small, or the claim too far in a tail")
        terms, logs = step.terms(), list[float]()
        for j in range(-int(reach[0] / spacing), int(reach[1] / spacing) + 1):
            if j not in cells:
                start, rise = exponents(step, terms, acb(j * spacing, eta))
                cells[j] = float(start.real), float(rise.real), float(rise.imag)
            fixed, slope, angle = cells[j]
            logs.append(fixed + u * slope - t * angle)
            if part:
                x = part * (cut - j * spacing) / width
                logs[-1] += -x * x / 2 - math.log(x) if x > 30 else math.log(math.erfc(x / math.sqrt(2)) / 2)
        top = max(logs)
        total = math.fsum(math.exp(x - top) for x in logs) * spacing / math.sqrt(2 * math.pi)
        return top + math.log(total) + ((eta / width) ** 2 / 2 if part else 0.0)

    def log_bound(self, theta: float, t: float = 0.0, scale: float = 1.0) -> float:
        """Estimate ln of the upper bound of |M(theta + it)| e^{-(theta - 1) eps} for the transform M of the run's loss.

        If outcomes are divided by cuts (section 6 of the proof, in the package docstring), M is the transform of the
        rare part. `scale` is the distance by which paths are moved, in the width of the cut, or in count^(-1/2) without
        cuts.
        """
        u, share = 1 - theta if self.flip else theta, -math.inf
        total = float(self.mu_squared) * (theta * (theta - 1) - t * t) / 2 - (theta - 1) * self._near
        for step in self.steps:
            eta = self.eta(step, scale) if t else 0.0
            moment = self.log_moment(step, u) if self.cuts else self.log_moment(step, u, t, eta)
            total += step.count * moment
            rare = self.log_moment(step, u, t, eta, 1) if self.cuts else math.inf
            share = max(share, math.log(len(self.steps) * step.count) + rare - moment)
        return total + min(0.0, share)

    def threshold(self, nats: float) -> tuple[float, float]:
        """Return the approximate threshold of the loss at the false positive rate e^-`nats`, and the loss's deviation.

        The deviation is the standard deviation under the tilted law; both are in nats. The tail beyond the threshold is
        smaller than its exponential bound, by about the factor of a Gaussian.
        """
        x = _minimise_positive(lambda x: (self.log_bound(x) + nats) / x)
        above, at, below = (self.log_bound(scale * x) for scale in (1.01, 1, 0.99))
        return (at + nats - math.log1p((12 * nats) ** 0.5)) / x, min(100 * abs(above + below - 2 * at) ** 0.5, 3) / x

    def _height(self, scale: float) -> float:
        # the nodes beyond this height change nothing at the accuracy aimed at
        end = self.h
        while self.log_bound(self.theta, end, scale) > math.log(end) + self._target and end < 1e5 * self.h:
            end *= 1.2
        return end


def minimise(function: Callable[[float], float], start: float, step: float, count: int, reach: float = 100) -> float:
    """Return approximately the x near `start` where `function`, which has one valley, is least.

    Steps of size `step` find the valley, within `reach` steps of `start`. Then follow `count` golden sections.
    """
    x, golden = start, (math.sqrt(5) - 1) / 2
    for way in (step, -step):
        while function(x + way) < function(x) and abs(x - start) < reach * step:
            x += way
    low, high = x - step, x + step
    for _ in range(count):
        one, two = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, two) if function(one) < function(two) else (one, high)
    return (low + high) / 2


def _minimise_positive(function: Callable[[float], float]) -> float:
    # one minimum in ln x
    return math.exp(minimise(lambda x: function(math.exp(x)), 0.0, math.log(4), 14))
