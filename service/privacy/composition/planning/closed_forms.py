"""Runs whose curves are known exactly: one step; sums of Gaussian, two-loss or equal Laplace steps.

A step of two losses has the privacy loss +epsilon or -epsilon (pure and approximate DP).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast, final

from service.privacy.composition.exact_sums.exact_runs import Responses, responses_of
from service.privacy.composition.planning import cost
from service.privacy.composition.planning.cost_model import Ceiling, CostModel
from service.privacy.composition.planning.parts import Counted, loss_of_sum, shifts_beside
from service.privacy.composition.planning.plan import Plan
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.mechanisms.abstract import AbstractStep, Steps
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.batches.shifted_mixture import ShiftedMixtureStep
from service.privacy.mechanisms.batches.shuffled_epochs import SumsOfEpochs
from service.privacy.mechanisms.discrete.atomic_step import LARGEST_LOSS, AtomicStep
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.gdp import Gdp
from service.privacy.mechanisms.groups import GroupOfStated
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.mechanisms.rdp import Rdp
from service.privacy.mechanisms.shuffled.steps import AnyShuffled, AttacksOnShuffled, EveryDataSet, HeldOnes
from service.privacy.mechanisms.stated_divergences import StatedDivergences
from service.privacy.mechanisms.zcdp import Zcdp
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import CLOSED_FORM
from service.privacy.trade_off.atom_sums import in_reach, total_law, values
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.combinators.with_singular_mass import with_singular_mass
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

MOST_LARGE: Final = 64
"""Maximal number of values of the total of large losses. The curve of the other steps is evaluated for each value."""
PLAIN: Final = (Gaussian, Gdp, Laplace, PureDp, ApproximateDp, GroupOfStated)
"""Steps whose pair is known and attained for all parameters. Alone, they need no other engine."""
COSTS: Final[dict[type[AbstractStep], tuple[CostModel, Ceiling | None]]] = {
    **dict.fromkeys((*PLAIN, Exponential), (cost.ONE_CURVE, cost.CEILING_OF_ONE_CURVE)),
    PoissonSampled: (cost.SAMPLED_STEP, cost.CEILING_OF_SAMPLED_STEP),
    ShiftedMixtureStep: (cost.MIXTURE_STEP, None),
    SumsOfEpochs: (cost.SUMS_OF_EPOCHS, None),
    **dict.fromkeys((AnyShuffled, AttacksOnShuffled, HeldOnes, EveryDataSet), (cost.SHUFFLED_STEP, None)),
    GroupOfStated: (cost.STATED_CLASS, None),
    Zcdp: (cost.STATED_CLASS, None),
    Rdp: (cost.STATED_CLASS, None),
}
"""Costs of single steps, with ceilings for those whose curves cost the same for all parameters."""


def one_step(step: AbstractStep) -> Plan:
    """Return the plan (engine, curves and cost) of a single step, whose trade-off curve is exact."""
    build = partial(_one_step, step)
    model, ceiling = COSTS.get(type(step), (cost.ATOMS if isinstance(step, AtomicStep) else cost.ONE_CURVE, None))
    if isinstance(step, StatedDivergences):
        model = model.scaled(step.records)
    elif ceiling is not None and _has_small_loss(step):
        model = replace(model, search_mu=cost.MU_OF_SMALL_LOSS)
    if type(step) not in COSTS and len(dict.fromkeys(step.rounded(side) for side in (-1, 1))) > 1:
        model = cost.SAMPLED_STEP.scaled(2)
    return Plan(CLOSED_FORM, model, build, ceiling)


def _has_small_loss(step: AbstractStep) -> bool:
    """Return whether a search for the mu of a single step needs many cells, because its curve is nearly straight."""
    part = step.part()
    return part is not None and part.gaussian_shift is None and 0 < part.spread < cost.SMALL_LOSS


def _one_step(step: AbstractStep) -> TradeOffPair:
    alone = step.curves()
    return TradeOffPair(
        alone.add,
        alone.remove,
        alone.source,
        (*alone.notes, "closed_form: a single step has an exact curve."),
        bracket=alone.bracket,
    )


def gaussian_sum(parts: tuple[Counted, ...] | None) -> Plan | None:
    """Return the plan (engine, curves and cost) of a run of Gaussian steps; None for other runs.

    `parts` has pairs (description of a step, number of such steps).
    """
    shifts = tuple((mu, count) for part, count in parts or () if (mu := part.gaussian_shift) is not None)
    if parts is None or len(shifts) < len(parts):
        return None
    return Plan(CLOSED_FORM, cost.ONE_CURVE, partial(_composed_gaussians, shifts), cost.CEILING_OF_ONE_CURVE)


def _composed_gaussians(shifts: tuple[tuple[Enclosure, int], ...]) -> TradeOffPair:
    total = Enclosure(
        root_of_squares((shift.lower, count) for shift, count in shifts) * (1 - 8 * UNIT_ROUNDOFF),
        root_of_squares((shift.upper, count) for shift, count in shifts) * (1 + 8 * UNIT_ROUNDOFF),
        Evidence.EXACT,
    )
    curve = gaussian_curve(total)
    reason = "closed_form: Gaussian steps compose to one Gaussian step, and the values of mu^2 add up."
    return TradeOffPair(curve, curve, "Dong, Roth, Su 2022 (Gaussian differential privacy), Corollary 3.3", (reason,))


def summed(steps: Steps) -> Plan | None:
    """Return the plan (engine, curves and cost) of a run whose law of the loss is an exact sum; None for other runs.

    Such runs consist of (epsilon, delta)-DP steps alone, of steps with finite lists of losses (if their direct
    convolution is inexpensive), or of equal Laplace steps.
    """
    responses = responses_of(steps)
    if responses is not None:
        return Plan(CLOSED_FORM, cost.response_sums(responses), partial(_responses, responses))
    kinds = atoms_of(steps)
    if kinds is not None:
        return Plan(CLOSED_FORM, cost.atom_sums(kinds), partial(_listed, steps, kinds))
    (step, count), *others = steps
    loss = loss_of_sum(step, count)
    if others or loss is None:
        return None
    return Plan(CLOSED_FORM, cost.laplace_sums(count, loss), partial(_composed_laplace, steps))


def atoms_of(steps: Steps) -> tuple[tuple[AtomicLaw, int], ...] | None:
    """Return the laws (with counts) of all steps if all are finite lists of losses with an inexpensive convolution.

    The result is None for other runs, and for runs of (epsilon, delta)-DP steps alone, which have faster sums. Steps of
    pure 0-DP are left out.
    """
    if all(step.two_point() is not None for step, _ in steps):
        return None
    kinds: list[tuple[AtomicLaw, int]] = []
    for step, count in steps:
        law, part = step.atomic_law(), step.two_point()
        if law is not None:
            kinds.append((law, count))
        elif part is None or part.epsilon > 0:
            return None
    return tuple(kinds) if kinds and in_reach(kinds) else None


def _listed(steps: Steps, kinds: tuple[tuple[AtomicLaw, int], ...]) -> TradeOffPair:
    from service.privacy.trade_off.atoms import AtomsTradeOff

    revealing = ((part.delta, count) for step, count in steps if (part := step.two_point()) is not None)
    add = with_singular_mass(AtomsTradeOff(total_law(kinds)), revealing)
    reason = "closed_form: the losses of all steps have listed values, and direct sums of products give their total."
    source = "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)"
    return TradeOffPair(add, add.reversed(), source, (reason,))


def _responses(run: Responses) -> TradeOffPair:
    from service.privacy.composition.exact_sums.exact_runs import response_curve

    curve = response_curve(run)
    reason = (
        "closed_form: steps with only a stated (epsilon, delta) guarantee compose as randomised "
        "responses, whose losses add up."
    )
    return TradeOffPair(curve, curve, "Kairouz, Oh, Viswanath 2015, Theorems 3.3 and 3.5", (reason,))


def _composed_laplace(steps: Steps) -> TradeOffPair:
    from service.privacy.composition.exact_sums.laplace_curves import ComposedLaplace

    ((step, count),) = steps
    laplace = cast("Laplace", step)
    curve = ComposedLaplace(count, float(laplace.sensitivity), laplace.noise_multiplier)
    reason = "closed_form: the loss of equal Laplace steps is a sum of lattices and splines with positive terms."
    return TradeOffPair(curve, curve, "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)", (reason,))


def beside_two_points(steps: Steps) -> Plan | None:
    """Return the closed form of one step, or equal Laplace steps, composed with steps of two losses +-epsilon.

    The result is a plan: the engine, the curves and their cost. It is None if the other steps have no closed form, or
    the sums of +-epsilon have too many values.
    """
    found = shifts_beside(steps)
    if found is None:
        return None
    (step, count), losses = found
    loss = loss_of_sum(step, count) or 0.0
    return Plan(CLOSED_FORM, cost.mixture_of_shifts(losses, count, loss), partial(shifted, steps, ((step, count),)))


def shifted(steps: Steps, others: Steps) -> TradeOffPair:
    """Return the curves of a run of `others` and of steps with two losses +-epsilon.

    `others` is one step, or equal Laplace steps. `steps` are all steps of the run. The profile is a mixture of shifted
    profiles of `others`.
    """
    from service.privacy.trade_off.mixture.shifted_mixture import ShiftedMixture, Shifts

    ((step, count),) = others
    rest = step.curves() if count == 1 else _composed_laplace(others)
    known = [(part, times) for each, times in steps if (part := each.two_point()) is not None]
    two_point = tuple((part.epsilon, times) for part, times in known if part.epsilon > 0)
    revealing = ((part.delta, times) for part, times in known)
    add = with_singular_mass(ShiftedMixture(rest.add, Shifts.of(two_point)), revealing)
    reason = (
        "closed_form: steps with two possible losses shift the thresholds at which the curve of the "
        "other steps is evaluated."
    )
    source = f"Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs); {rest.source}"
    return TradeOffPair(add, add.reversed(), source, (reason,), bracket=rest.bracket)


@final
@dataclass(frozen=True, slots=True)
class LargeLosses:
    """Steps of a run with losses above `LARGEST_LOSS`, and the other steps.

    Attributes
    ----------
    laws : tuple of (AtomicLaw, int)
        Laws of these steps where they do not reveal everything, with their counts.
    revealing : tuple of (float, int)
        Probabilities with which these steps reveal everything, with their counts.
    others : Steps
        The other steps.
    """

    laws: tuple[tuple[AtomicLaw, int], ...]
    revealing: tuple[tuple[float, int], ...]
    others: Steps


def with_large_losses(steps: Steps) -> LargeLosses | None:
    """Return the steps with losses above `LARGEST_LOSS`, and the other steps of a run.

    The result is None if the run has no such steps, or no others, or if the total of the large losses has more than
    `MOST_LARGE` values.
    """
    listed = [(step.atomic_law(), step, count) for step, count in steps]
    far = [each for each in listed if each[0] is not None and each[0].losses[0] > LARGEST_LOSS]
    others = tuple((step, count) for law, step, count in listed if law is None or law.losses[0] <= LARGEST_LOSS)
    laws = tuple((law, count) for law, _, count in far if law is not None)
    revealing = tuple((part.delta, count) for _, step, count in far if (part := step.two_point()) is not None)
    return LargeLosses(laws, revealing, others) if laws and others and 1 <= values(laws) <= MOST_LARGE else None


def shifted_by_large_losses(rest: TradeOffPair, large: LargeLosses) -> TradeOffPair:
    """Return the curves of a run from those of the steps without large losses, `rest`.

    `large` has the steps with large losses. The profile is a mixture of shifted profiles of `rest`, beside the
    probability with which these steps reveal everything.
    """
    from service.privacy.trade_off.mixture.shifted_mixture import ShiftedMixture, Shifts

    shifted = ShiftedMixture(rest.add, Shifts.of_law(total_law(large.laws)))
    add = with_singular_mass(shifted, large.revealing)
    reason = "Steps with a few large losses shift the thresholds at which the curve of the other steps is evaluated."
    return replace(rest, add=add, remove=add.reversed(), notes=(*rest.notes, reason))


def root_of_squares(shifts: Iterable[tuple[float, int]]) -> float:
    """Return the square root of the sum of N mu^2 over the pairs (mu, N) in `shifts`, within 6 units of rounding.

    N steps are mu-GDP each. The squares are scaled so that none under- or overflows.
    """
    listed = tuple(shifts)
    largest = max(mu for mu, _ in listed)
    if largest == 0:
        return 0.0
    return largest * math.sqrt(math.fsum(count * (mu / largest) ** 2 for mu, count in listed))
