"""Trade-off curves of noisy SGD against an adversary who has the law of the data, for one susceptibility K."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Final, Literal

from service.privacy.composition.planning.accuracy import MEMBERSHIP_STEPS
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.plan import Plan
from service.privacy.conversions import effective_batch_size, gaussian_step_mu, limit_mu
from service.privacy.enclosure import Enclosure
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.domain import NOISE_MULTIPLIER
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.neighbours import ONE_ADDED
from service.privacy.mechanisms.noisy_sgd import NoisySgd
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.repeated import Repeated
from service.privacy.threat_models import cost
from service.privacy.threat_models.membership_step import SOURCE, MembershipStep, full_batches
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.intersected import Intersected
from service.privacy.trade_off.combinators.second_engine import SecondEngine
from service.privacy.trade_off.delegating import Approximate
from service.privacy.trade_off.pair import TradeOffPair, brackets_of
from service.privacy.trade_off.sampling.sampled import SampledAdd
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

StepCurve = Literal["chi_square", "gaussian"]
Composition = Literal["exact", "clt", "root_sum_square"]

CLOSED_FORM, CONTOUR, DISCRETISED = "closed_form", "contour", "discretised"
LARGEST_LINE_MU: Final = 5.0
"""Largest mu of a step for contours. Above it a step reveals the record almost surely, and contours are long."""
LEAST_LINE_SIZE: Final = 2
"""Effective batch size up to which only lattices serve, because the density of the loss is unbounded at its minimum."""
LARGEST_MU: Final = 1e6
"""Largest mu. Above it everything is revealed."""
LARGEST_SUSCEPTIBILITY: Final = 1e150
GAUSSIAN_STEP: Final = "Leemann et al. 2023 (Gaussian membership inference privacy), Corollary 5.1"
LIMIT: Final = "Lemma 5.1 (Equation 10)"
SQUARES: Final = "D.3 (with the squares under its root)"
COMPOSED: Final = "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)"
LINES: Final = (
    "contour: the cumulant generating functions of the steps (each a chi-square statistic) add "
    "up, and a certified contour integral inverts the sum."
)


@dataclass(frozen=True, slots=True)
class MembershipRun:
    """Training run of `steps` steps of noisy SGD, each as `mechanism` describes."""

    mechanism: NoisySgd
    steps: int

    @property
    def susceptibility(self) -> float:
        """Susceptibility K of the record under attack, the squared length of its whitened gradient.

        The default is the dimension of the gradients.
        """
        stated = self.mechanism.susceptibility
        return float(self.mechanism.dimension) if stated is None else stated

    @property
    def effective_batch_size(self) -> Fraction:
        """Effective batch size N = n + tau^2 n^2/C^2 of a step: batch size n, noise tau and clipping norm C."""
        step = self.mechanism
        return effective_batch_size(step.batch_size, step.noise_std, step.max_grad_norm)

    @property
    def is_sampled(self) -> bool:
        """Whether a step uses a random part of the data set instead of all records."""
        return self.mechanism.batch_size < self.mechanism.dataset_size

    @property
    def share(self) -> Fraction:
        """Share of the records of the data set in a batch, in (0, 1]."""
        return Fraction(self.mechanism.batch_size, self.mechanism.dataset_size)


def run_of(mechanism: AbstractMechanism) -> MembershipRun:
    """Return `mechanism` as a training run of noisy SGD with its number of steps.

    Raises UnsupportedCombination with field `mechanism` for any other mechanism.
    """
    steps, inner = 1, mechanism
    while isinstance(inner, Repeated):
        steps, inner = steps * inner.steps, inner.mechanism
    if not isinstance(inner, NoisySgd):
        reason = "the curve of this adversary is known only for noisy_sgd, the mean gradients of batches of known size."
        raise UnsupportedCombination(
            "mechanism", f"membership for {mechanism.type}", reason, ("noisy_sgd", "repeated noisy_sgd")
        )
    return MembershipRun(inner, steps * inner.steps)


def engine_of(run: MembershipRun, susceptibility: float, step_curve: StepCurve, composition: Composition) -> str:
    """Return the engine for the curve of the training run `run`: "closed_form", "contour" or "discretised".

    `susceptibility` is that of the record under attack. `step_curve` and `composition` are the choices of the threat
    model.
    """
    if composition != "exact" or not run.is_sampled or run.steps == 1:
        return CLOSED_FORM
    if step_curve == "gaussian":
        return CONTOUR
    if run.effective_batch_size == 1:
        return CLOSED_FORM
    on_line = run.effective_batch_size > LEAST_LINE_SIZE and _rough_step_mu(run, susceptibility) <= LARGEST_LINE_MU
    return CONTOUR if on_line else DISCRETISED


def engines_of(engine: str, step_curve: StepCurve) -> tuple[str, ...]:
    """Return the names of the composition methods that a request may choose for a curve.

    `engine` is the name of the engine of the curve, and `step_curve` the choice in the threat model.
    """
    return (engine, DISCRETISED) if engine == CONTOUR and step_curve == "chi_square" else (engine,)


def gaussian_run(run: MembershipRun, step_mu: float) -> Repeated:
    """Return the training run as sampled steps, each with the Gaussian curve of mu = `step_mu` before sampling."""
    multiplier = min(max(1 / step_mu, NOISE_MULTIPLIER.low), NOISE_MULTIPLIER.high)
    step = PoissonSampled(sample_rate=run.mechanism.sample_rate, mechanism=Gaussian(noise_multiplier=multiplier))
    return Repeated(mechanism=step, steps=run.steps)


def step_mu_of(run: MembershipRun, susceptibility: float) -> float:
    """Return the membership parameter mu of one step of `run`; infinite if everything is revealed.

    mu is that of Leemann et al. 2023, Corollary 5.1. `susceptibility` is that of the record under attack.
    """
    known = math.isfinite(susceptibility)
    effective = run.effective_batch_size if known else Fraction(1)  # size 1 reveals everything as well
    return gaussian_step_mu(run.mechanism.dimension, susceptibility if known else 0.0, effective)


def plan_of(
    run: MembershipRun,
    susceptibility: float,
    step_curve: StepCurve,
    composition: Composition,
    options: EngineOptions,
    method: str = "auto",
) -> Plan:
    """Return a plan for the trade-off curves of a run of noisy SGD, for a record of the `susceptibility` K >= 0.

    K is infinite for a record that is recognised for certain. `step_curve` and `composition` are those of
    `Membership`, and `method` is "auto" or one of `engines_of`.
    """
    engine = engine_of(run, susceptibility, step_curve, composition)
    if DISCRETISED in (engine, method):
        options = options.no_finer_than(MEMBERSHIP_STEPS)
        model = cost.membership_lattices(options.relative_tolerance)
        return Plan(DISCRETISED, model, partial(_on_lattices, run, susceptibility, options))
    if engine == CONTOUR and step_curve == "chi_square":
        share = run.mechanism.sample_rate
        model = cost.membership_contour(_rough_step_mu(run, susceptibility), share, run.steps)
        return Plan(engine, model, partial(_on_lines, run, susceptibility, options, method))
    if composition == "exact" and step_curve == "chi_square":
        model = cost.SAMPLED_ONCE if run.is_sampled else cost.WHOLE_DATA
        return Plan(engine, model, partial(_exact, run, susceptibility))
    if composition != "exact":
        return Plan(engine, cost.GAUSSIAN, partial(_approximated, run, susceptibility, composition))
    if run.is_sampled:
        return _composed_gaussians(run, susceptibility, options)
    return Plan(engine, cost.GAUSSIAN, partial(_composed_exactly, run, susceptibility))


def _exact(run: MembershipRun, susceptibility: float) -> TradeOffPair:
    dimension, effective, steps = run.mechanism.dimension, run.effective_batch_size, run.steps
    if not run.is_sampled:
        curve = full_batches(dimension, susceptibility, effective, steps)
        reason = (
            "closed_form: the statistics of steps on the whole data set add up to one statistic with a chi-square law."
        )
        return TradeOffPair(curve, curve.reversed(), SOURCE, (reason,))
    # A batch with only the record reveals it as soon as it is drawn.
    rate = run.mechanism.sample_rate
    ever = rate if steps == 1 else -math.expm1(steps * math.log1p(-rate))
    add = SampledAdd(full_batches(dimension, susceptibility, effective, 1), ever)
    return TradeOffPair(add, add.reversed(), SOURCE, ("closed_form: a single sampled step has an exact curve.",))


def _on_lines(run: MembershipRun, susceptibility: float, options: EngineOptions, method: str) -> TradeOffPair:
    """Return the trade-off curves of `run` by contour inversion.

    With `method` auto, the lattice engine evaluates numbers for which contours are inaccurate. `susceptibility` is the
    squared length of the record's whitened gradient.
    """
    from service.privacy.composition.inversion.engine import contour_pair
    from service.privacy.composition.summands.sampled_chi_square_grid import ChiSquareSteps

    dimension, effective = run.mechanism.dimension, run.effective_batch_size
    full_batches(dimension, susceptibility, effective, 1)  # refuses what is too large before any work
    steps = ChiSquareSteps(dimension, susceptibility, effective, run.mechanism.sample_rate, run.steps)
    add, remove = contour_pair(0.0, (steps,), accuracy=options.accuracy)
    pair = TradeOffPair(add, remove, f"{SOURCE}; {COMPOSED}", (LINES,))
    if method == CONTOUR:
        return pair
    options = options.no_finer_than(MEMBERSHIP_STEPS)
    tolerance = options.relative_tolerance

    def second() -> AbstractTradeOff:
        return _on_lattices(run, susceptibility, options).add

    counter = SecondEngine(
        f"discretised: also computed, because the result of contour was wider than {tolerance:g}. Both enclosures hold."
    )
    both = Intersected(add, second, tolerance, counter)
    return replace(pair, add=both, remove=both.reversed(), second=counter)


def _on_lattices(run: MembershipRun, susceptibility: float, options: EngineOptions) -> TradeOffPair:
    if math.isinf(susceptibility):
        return _exact(run, susceptibility)
    from service.privacy.composition.lattice.engine import discretised_pair

    dimension, effective = run.mechanism.dimension, run.effective_batch_size
    full_batches(dimension, susceptibility, effective, 1)  # refuses what is too large before any work
    step = MembershipStep(
        dimension=dimension,
        susceptibility=susceptibility,
        effective_batch_size=effective,
        sample_rate=run.mechanism.sample_rate,
    )
    pair = discretised_pair(((step, run.steps),), options)
    return replace(pair, source=f"{SOURCE}; {pair.source}")


def _composed_gaussians(run: MembershipRun, susceptibility: float, options: EngineOptions) -> Plan:
    from service.privacy.composition.planning import choose

    method = "auto" if run.steps == 1 else CONTOUR
    priced = choose.plan(gaussian_run(run, _rough_step_mu(run, susceptibility)), method, ONE_ADDED, options)
    build = partial(_approximately_composed, run, susceptibility, method, options)
    return Plan(priced.engine, cost.of_gaussian_steps(priced.cost), build)


def _approximately_composed(
    run: MembershipRun, susceptibility: float, method: str, options: EngineOptions
) -> TradeOffPair:
    from service.privacy.composition.planning import choose

    found = choose.pair(gaussian_run(run, step_mu_of(run, susceptibility)), method, ONE_ADDED, options)
    add = Approximate(found.add)
    source = f"{GAUSSIAN_STEP}; {found.source}"
    return TradeOffPair(add, add.reversed(), source, found.notes, bracket=brackets_of((found,)))


def _composed_exactly(run: MembershipRun, susceptibility: float) -> TradeOffPair:
    return _gaussian(math.sqrt(run.steps) * step_mu_of(run, susceptibility), GAUSSIAN_STEP)


def _rough_step_mu(run: MembershipRun, susceptibility: float) -> float:
    """Return the membership parameter mu of one step of `run` to a few digits, for estimates of the cost.

    `susceptibility` is the squared length of the record's whitened gradient. The accurate function `step_mu_of` takes
    milliseconds.
    """
    dimension, size = run.mechanism.dimension, float(min(run.effective_batch_size, 10**150))
    if size == 1 or susceptibility > LARGEST_SUSCEPTIBILITY:
        return LARGEST_MU
    top = dimension + (2 * size - 1) * susceptibility
    return min(top / (size * math.sqrt(2 * dimension + 4 * size * susceptibility)), LARGEST_MU)


def _approximated(run: MembershipRun, susceptibility: float, composition: Composition) -> TradeOffPair:
    step_mu = step_mu_of(run, susceptibility)
    if composition == "root_sum_square" or not run.is_sampled:
        return _gaussian(math.sqrt(run.steps) * step_mu, f"{GAUSSIAN_STEP}; {SQUARES}")
    return _gaussian(limit_mu(step_mu, run.share, Fraction(run.steps)), f"{GAUSSIAN_STEP}; {LIMIT}")


def _gaussian(mu: float, source: str) -> TradeOffPair:
    known = ApproximateDpTradeOff(0.0, 1.0) if mu > LARGEST_MU else gaussian_curve(Enclosure.point(mu))
    curve = Approximate(known)
    return TradeOffPair(curve, curve, source, (f"closed_form: Gaussian curve of mu = {mu:.6g}.",))
