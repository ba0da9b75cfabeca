"""Mixture of adversaries: one is drawn before the run and stays for the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.plan import Plan, mixed_plan
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.domain import WEIGHT, check_fields
from service.privacy.mechanisms.mixture import WEIGHT_SUM_TOLERANCE
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.relaxed import RelaxedThreatModel, is_bounded_by_worst_case, worst_case_beside
from service.privacy.threat_models.worst_case import WorstCase, worst_of
from service.privacy.trade_off.mixture.curve import mixed
from service.privacy.trade_off.pair import TradeOffPair

ADVERSARIES = 16
SOURCE = "Kaissis et al. 2024 (GLRT), flexibilisation of the threat model: profiles mix linearly"
REASON = (
    "mixture: the adversary knows its own type, so the profiles of the types mix linearly. The "
    "types share the false positives at one likelihood ratio. Steps are composed for each type "
    "first (/errata#glrt-mixture)."
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Adversary:
    """Threat model of a mixture, with the probability that it attacks.

    Attributes
    ----------
    weight : Fraction
        Probability.
    threat_model : AbstractThreatModel
        The attacker.
    """

    weight: Annotated[float, WEIGHT]
    threat_model: AbstractThreatModel

    def __post_init__(self) -> None:
        check_fields(self)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AdversaryMixture(RelaxedThreatModel):
    """Mixture of adversaries: one of them is drawn with probability w_i and attacks.

    The privacy profile is delta(eps) = sum w_i delta_i(eps) in each direction.

    Notes
    -----
    The curve is the sup-convolution of the powers, not their average at one false positive rate. The curve `both` of
    the result bounds both directions. The adversary knows its type, so that the curve is attained if the curve of each
    type is attained on one pair of data sets. If the bounds of one type come from two theorems (a bracket), so do those
    of the mixture.
    """

    type: ClassVar[str] = "mixture"
    components: tuple[Adversary, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.components) <= ADVERSARIES:
            raise OutOfDomain("components", len(self.components), f"a list of 1 to {ADVERSARIES} components")
        if any(isinstance(part.threat_model, AdversaryMixture) for part in self.components):
            raise UnsupportedCombination(
                "threat_model", "mixture of mixtures", "write the parts as one mixture.", ("mixture",)
            )
        if abs(self._total - 1) > WEIGHT_SUM_TOLERANCE:
            raise OutOfDomain("components", float(self._total), "components whose weights sum to 1 (within 1e-12)")

    @property
    def _total(self) -> Fraction:
        return sum((Fraction(part.weight) for part in self.components), Fraction(0))

    @property
    def _models(self) -> Sequence[AbstractThreatModel]:
        return [part.threat_model for part in self.components]

    @override
    def own_plan(self, mechanism: AbstractMechanism, method: str, options: EngineOptions, worst: Plan | None) -> Plan:
        options = options.for_components(len(self.components))
        plans = [model.plan(mechanism, method, options) for model in self._models]
        if len(plans) == 1:
            return plans[0]
        return mixed_plan(plans, partial(self._mixture, plans))

    def _mixture(self, plans: Sequence[Plan]) -> TradeOffPair:
        shares = [Fraction(part.weight) / self._total for part in self.components]
        return mixed(shares, [each.curves for each in plans], SOURCE, REASON)

    @override
    def worst_case(self, mechanism: AbstractMechanism) -> WorstCase:
        """Return the threat model of the worst case: the strongest of those beside the adversaries of the mixture."""
        faced = (
            model if isinstance(model, WorstCase) else worst_case_beside(model, mechanism) for model in self._models
        )
        return worst_of(model for model in faced if model is not None)

    @override
    def is_bounded(self, mechanism: AbstractMechanism) -> bool:
        """Return whether each type of adversary is bounded; then the mixture is bounded as well.

        A mixture of powers stays below a concave curve that bounds every power.
        """
        return all(is_bounded_by_worst_case(model, mechanism) for model in self._models)

    @override
    def premises(self, mechanism: AbstractMechanism) -> tuple[Premise, ...]:
        draw = Premise(
            "adversary_is_drawn",
            "One adversary is drawn with the stated weights, independently of the data, for the whole "
            "run. The adversary knows which type was drawn.",
            "unknown",
        )
        found = dict.fromkeys(premise for model in self._models for premise in model.premises(mechanism))
        return (*found, draw)
