"""Engine `ground_truth`: 15 to 50 proved digits for runs of Gaussian, gdp and Poisson-sampled Gaussian steps.

The engine also covers steps that are mixtures of shifted Gaussians. One step and Gaussian steps have closed forms
(`sources.py`). Runs are evaluated by two inversion integrals of the moment generating function (`contour.py`), with
different tilts and different nodes: outer nodes on the contour, and inner nodes of the moments of one step. Their
enclosures must meet and are intersected. All computations are ball arithmetic, in which truncation, aliasing,
quadrature and rounding errors are radii. Parameters and arguments are exact fractions. The cost does not depend on the
number of steps.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Final

from service.privacy.composition.ground_truth.contour import GroundTruthRun
from service.privacy.composition.ground_truth.curve import GroundTruthTradeOff
from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.mixture_threshold import MixtureThresholds
from service.privacy.composition.ground_truth.search import GroundTruthSearch
from service.privacy.composition.ground_truth.sources import ClosedSources, GaussianThresholds, LineSources, Sources
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import Steps
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

FEWEST_DIGITS: Final = 15
MOST_DIGITS: Final = 50


def ground_truth_pair(steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Return the add and remove curves of a run with `options.digits` proved significant digits for every number.

    Parameters
    ----------
    steps : Steps
        Elementary steps with counts.
    options : EngineOptions
        `digits` is in [15, 50].

    Raises
    ------
    OutOfDomain
        For other digits.
    UnsupportedCombination
        With field `method` for steps without a transform in ball arithmetic, and for runs whose contour would be too
        long (here or at evaluation).
    """
    if not FEWEST_DIGITS <= options.digits <= MOST_DIGITS:
        raise OutOfDomain("digits", options.digits, f"in [{FEWEST_DIGITS}, {MOST_DIGITS}]")
    run = _exact_run(steps)
    if not run.steps and run.gaussian_mu_squared == 0:
        identity = gaussian_curve(Enclosure.point(0.0))
        return TradeOffPair(identity, identity, "equal laws", ("ground_truth: f(alpha) = 1 - alpha exactly.",))
    lone = run.gaussian_mu_squared == 0 and len(run.steps) == 1 and run.steps[0][1] == 1
    return _pair(run, lone, _guides(steps, run, lone), options.digits)


def _pair(
    run: GroundTruthRun, lone: bool, guides: tuple[AbstractTradeOff, AbstractTradeOff], digits: int
) -> TradeOffPair:
    """Build the curves of both directions of a run; Gaussian steps, or mirrored mixtures, have one curve for both.

    `lone` is whether the run is one step, `guides` are curves in doubles, and results have `digits` significant digits.
    """
    how = "a closed form" if lone or not run.steps else "two contour integrals with different tilts"
    note = f"ground_truth: {how} in ball arithmetic, with {digits} significant digits."
    if not run.steps:
        sources = ClosedSources(partial(GaussianThresholds, run.gaussian_mu_squared))
        search = GroundTruthSearch(sources, guides[0], digits)
        curve = GroundTruthTradeOff(run, search, search, reflected=False)
        return TradeOffPair(curve, curve, "Dong, Roth, Su 2022 (Gaussian differential privacy), Corollary 3.3", (note,))
    line_guide = None if lone else run.guide()

    def search_of(reflected: bool) -> GroundTruthSearch:
        sources: Sources
        if line_guide is None:
            sources = ClosedSources(partial(MixtureThresholds, run.steps[0][0], reflected))
        else:
            sources = LineSources(run, line_guide, reflected=reflected)
        return GroundTruthSearch(sources, guides[reflected], digits)

    search = search_of(False)
    other = search if all(step.mirrored for step, _ in run.steps) else search_of(True)
    add = GroundTruthTradeOff(run, search, other, reflected=False)
    source = "Zhu, Dong, Wang 2022, Theorems 10 and 11 (composition of dominating pairs)"
    return TradeOffPair(add, add.reversed(), source, (note,))


def _exact_run(steps: Steps) -> GroundTruthRun:
    mu_squared, known = Fraction(0), list[tuple[ExactMixture, int]]()
    for step, count in steps:
        part = step.part()
        exact = None if part is None else part.exact_shifts
        if exact is None:
            reason = (
                "ball arithmetic covers Gaussian and gdp steps, Poisson-sampled Gaussian steps, and mixtures "
                "of shifted Gaussians (groups of records, replaced records and batches of fixed size)."
            )
            engines = ("auto", "closed_form", "discretised", "monte_carlo")
            raise UnsupportedCombination("method", f"ground_truth for {step.type}", reason, engines)
        if len(exact.shifts) == 1:
            mu_squared += count * (Fraction(exact.shifts[0]) / exact.noise_multiplier) ** 2
        else:
            known.append((ExactMixture(exact.noise_multiplier, exact.law, exact.shifts, exact.mirrored), count))
    return GroundTruthRun(mu_squared, tuple(known))


def _guides(steps: Steps, run: GroundTruthRun, lone: bool) -> tuple[AbstractTradeOff, AbstractTradeOff]:
    """Return the curves of `steps` in doubles (add, remove) that guide searches; no result relies on them.

    `lone` is whether the run is one step.
    """
    if lone:
        pair = steps[0][0].curves()
        return pair.add, pair.remove
    if not run.steps:
        mu = math.sqrt(float(run.gaussian_mu_squared))
        curve = gaussian_curve(Enclosure(mu * (1 - 1e-15), mu * (1 + 1e-15), Evidence.CERTIFIED))
        return curve, curve
    from service.privacy.composition.inversion.engine import contour_pair
    from service.privacy.composition.summands.catalogue import described_run

    rounded = ((step.rounded(-1).part(), count) for step, count in steps)
    known = described_run((part, count) for part, count in rounded if part is not None)
    return contour_pair(float(run.gaussian_mu_squared), known.summands)
