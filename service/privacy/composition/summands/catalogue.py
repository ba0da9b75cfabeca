"""Registry of the kinds of steps: summand of each description, its truncated law, and that law on a contour.

Engines use properties of summands, never their kind. Planning looks at descriptions. `ChiSquareSteps` have no
description: the threat model of `threat_models/membership_run.py` makes them, and inverts them directly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from service.privacy.composition.summands.abstract import RunScale, Summand, SummandOnContour, TruncatedSummand
from service.privacy.composition.summands.atoms import AtomParts, AtomsOnContour, AtomSteps
from service.privacy.composition.summands.gaussian_mixture import GaussianMixtureSteps, TruncatedGaussianMixture
from service.privacy.composition.summands.gaussian_mixture_contour import GaussianMixtureOnContour
from service.privacy.composition.summands.sampled_chi_square import TruncatedSampledChiSquare
from service.privacy.composition.summands.sampled_chi_square_contour import SampledChiSquareOnContour
from service.privacy.composition.summands.sampled_chi_square_grid import ChiSquareSteps
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps, TruncatedSampledGaussian
from service.privacy.composition.summands.sampled_gaussian_contour import SampledGaussianOnContour
from service.privacy.composition.summands.sampled_laplace import LaplaceSteps, SampledLaplaceParts
from service.privacy.composition.summands.sampled_laplace_contour import SampledLaplaceOnContour
from service.privacy.composition.summands.trapezoid import NormalTrapezoid
from service.privacy.composition.summands.trapezoid_contour import TrapezoidOnContour
from service.privacy.composition.summands.two_points import TwoPointOnContour, TwoPointParts, TwoPointSteps
from service.privacy.mechanisms.abstract import (
    AtomsPart,
    GaussianMixturePart,
    GaussianPart,
    LaplacePart,
    Part,
    SampledGaussianPart,
    TwoPointPart,
)
from service.privacy.numerics.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class DescribedRun:
    """Run of described steps: one normal law for all unsampled Gaussian steps, and a summand for each other kind.

    `gaussian_mu_squared` is the sum of mu^2 over the unsampled Gaussian steps. `revealing` has pairs (probability that
    a step reveals the record, number of such steps).
    """

    gaussian_mu_squared: float
    summands: tuple[Summand, ...]
    revealing: tuple[tuple[float, int], ...]


def described_run(parts: Iterable[tuple[Part, int]]) -> DescribedRun:
    """Return the run that consists of these steps. `parts` has pairs (description of a step, number of such steps)."""
    squares = list[float]()
    summands, revealing = list[Summand](), list[tuple[float, int]]()
    for part, count in parts:
        match part:
            case GaussianPart():
                squares.append(count * part.shift.upper**2)
            case SampledGaussianPart():
                summands.append(SampledGaussianSteps(part.noise_multiplier, part.sample_rate, count, part.rate_rest))
            case LaplacePart():
                summands.append(LaplaceSteps(part.loss, part.sample_rate, count))
            case GaussianMixturePart():
                summands.append(GaussianMixtureSteps(part, count))
            case AtomsPart():
                summands.append(AtomSteps(part.law, count))
            case TwoPointPart():
                revealing.append((part.delta, count))
                if part.epsilon > 0:
                    summands.append(TwoPointSteps(part.epsilon, count))
    return DescribedRun(math.fsum(squares), tuple(summands), tuple(revealing))


_TRUNCATED: dict[type[Summand], type[Any]] = {
    SampledGaussianSteps: TruncatedSampledGaussian,
    LaplaceSteps: SampledLaplaceParts,
    TwoPointSteps: TwoPointParts,
    AtomSteps: AtomParts,
    GaussianMixtureSteps: TruncatedGaussianMixture,
    ChiSquareSteps: TruncatedSampledChiSquare,
}

_ON_CONTOUR: dict[type[TruncatedSummand], type[Any]] = {
    TruncatedSampledGaussian: SampledGaussianOnContour,
    SampledLaplaceParts: SampledLaplaceOnContour,
    TwoPointParts: TwoPointOnContour,
    AtomParts: AtomsOnContour,
    TruncatedGaussianMixture: GaussianMixtureOnContour,
    TruncatedSampledChiSquare: SampledChiSquareOnContour,
}


def truncated(group: tuple[Summand, ...], digits: float, scale: RunScale) -> TruncatedSummand:
    """Return the law of the steps of one group, truncated.

    Parameters
    ----------
    group : tuple of Summand
        Steps of one kind that are evaluated together.
    digits : float
        The truncation leaves out at most about 10^-digits of the mass of H0 and of H1.
    scale : RunScale
        Properties of the whole run that choose the truncation and the nodes; no bound depends on them.
    """
    return cast("TruncatedSummand", _TRUNCATED[type(group[0])].of_group(group, digits, scale))


def on_contour(summand: TruncatedSummand, theta: float) -> SummandOnContour:
    """Return the truncated law `summand` on the inversion contour, the line Re z = theta in the complex plane."""
    return cast("SummandOnContour", _ON_CONTOUR[type(summand)](summand, theta))


def separately_truncated(
    steps: tuple[Summand, ...], deviation: FloatArray, digits: FloatArray, times: FloatArray
) -> NormalTrapezoid:
    """Return the truncated laws of several runs in common arrays. Each run repeats its own consecutive `steps`.

    Parameters
    ----------
    steps : tuple of Summand
        Steps of all runs, with equally many of them in each run, all of one kind.
    deviation : (runs,)
        Approximate standard deviation of the loss of each run in nats, rather too small.
    digits : (runs,)
        The truncation leaves out at most about 10^-digits of the mass of each run under both hypotheses.
    times : (runs,)
        How many times each run repeats its steps.
    """
    return cast("NormalTrapezoid", _TRUNCATED[type(steps[0])](steps, deviation, digits, times=times))


def separate_on_contour(runs: NormalTrapezoid, theta: FloatArray) -> TrapezoidOnContour[NormalTrapezoid]:
    """Return the truncated laws of several separate `runs`, each on its own contour Re z = `theta`, shape (runs,)."""
    return cast("TrapezoidOnContour[NormalTrapezoid]", _ON_CONTOUR[type(runs)](runs, theta))
