"""Cost models of the trade-off curves of relaxed threat models, in microseconds of CPU time."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.cost import SERIES
from service.privacy.composition.planning.cost_model import CostModel, summed
from service.privacy.threat_models.glrt_step import GlrtSteps

# Curve                               build  evaluate  per point, in microseconds
GLRT: Final = CostModel(2_000, 10_000, 150)
GLRT_SAMPLED: Final = CostModel(3_000, 10_000, 500)
GLRT_COMPOSED: Final = CostModel(500_000, 3_500_000, 5_000)
GAUSSIAN: Final = CostModel(20_000, 250, 5, one_curve=True)
WHOLE_DATA: Final = CostModel(10_000, 5_000, 300)
SAMPLED_ONCE: Final = CostModel(10_000, 6_000, 2_000)
MEMBERSHIP_CONTOUR: Final = CostModel(15_000, 30_000, 500)
MEMBERSHIP_LATTICES: Final = CostModel(100_000, 6_000_000, 100_000)
SUSCEPTIBILITIES: Final = CostModel(50_000, 3_000_000, 300_000)
SUSCEPTIBILITIES_OF_LATTICES: Final = CostModel(500_000, 12_000_000, 1_000_000)

SHARE_OF_A_PART: Final = 1 / 4
"""Share of the cost that every further kind of step adds."""
SHORT_MU, SHORT_STEPS, SHORT_RECORDS = 2.0, 64, 1.0
"""Largest mu of a step, smallest count of steps and of expected samples of the record with short, narrow contours."""
LOOSE, COARSER = 1e-3, 1 / 4
"""Tolerance from which lattices are coarse, and the ratio of their cost."""
CROSSING: Final = 5.0
"""Evaluations of both curves per evaluation of the larger curve, because a search finds their crossing."""


def glrt(steps: GlrtSteps, method: str) -> CostModel:
    """Return the cost of the curves of the generalised likelihood ratio test of `steps` by the composition `method`.

    Costs are in microseconds of CPU time.
    """
    if method == "discretised":
        return GLRT_COMPOSED.scaled(1 + SHARE_OF_A_PART * (len(steps) - 1))
    if method == "clt":
        return SERIES
    return GLRT_SAMPLED if steps[0][0].sample_rate < 1 else GLRT


def membership_contour(step_mu: float, rate: float, steps: int) -> CostModel:
    """Return the cost of the curves of a membership adversary by contour inversion.

    Costs are in microseconds of CPU time. The run has `steps` steps with the parameter `step_mu` and the sampling rate
    `rate`. The cost includes that of lattices unless `step_mu` is small, the steps are many and enough of them use the
    record: contours are accurate for such runs.
    """
    short = step_mu <= SHORT_MU and steps >= SHORT_STEPS and steps * rate >= SHORT_RECORDS
    return MEMBERSHIP_CONTOUR if short else MEMBERSHIP_LATTICES


def membership_lattices(tolerance: float) -> CostModel:
    """Return the cost of composition on lattices of privacy losses for results of the relative width `tolerance`.

    Costs are in microseconds of CPU time.
    """
    return MEMBERSHIP_LATTICES.scaled(COARSER) if tolerance >= LOOSE else MEMBERSHIP_LATTICES


def of_gaussian_steps(run: CostModel) -> CostModel:
    """Return the cost of a run of sampled Gaussian steps, increased by that of the search for the mu of a step.

    `run` is the cost of the run alone. Costs are in microseconds of CPU time.
    """
    return replace(run, build=run.build + GAUSSIAN.build)


def larger_of(own: CostModel, worst: CostModel) -> CostModel:
    """Return the cost of the curve max(f, g) of two curves with the costs `own` and `worst`.

    Costs are in microseconds of CPU time.
    """
    both = summed([own, worst])
    return replace(both, evaluate=CROSSING * both.evaluate, per_point=CROSSING * both.per_point)
