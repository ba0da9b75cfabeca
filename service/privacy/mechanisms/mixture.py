"""Mixture: one of several mechanisms, drawn privately."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Final, NoReturn, final

from typing_extensions import override

from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.domain import COMPONENTS, WEIGHT, check_fields

WEIGHT_SUM_TOLERANCE: Final = Fraction(1, 10**12)
"""Largest distance of the sum of weights from 1. The weights are divided by their sum."""

DRAW_IS_INDEPENDENT: Final = Premise(
    "draw_is_independent",
    "One component of the mixture is drawn once, with the stated weights and independently of the data.",
    about="draw",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedMechanism:
    """Mechanism of a mixture, with the probability `weight` that it is drawn."""

    weight: Annotated[float, WEIGHT]
    mechanism: AbstractMechanism

    def __post_init__(self) -> None:
        check_fields(self)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture(AbstractMechanism):
    """Mixture: one of `components` is drawn once, independently of the data, and run with all its steps.

    Notes
    -----
    An attacker who does not know the draw is at most as strong as an attacker who learns it. The privacy profile of an
    attacker who learns the draw is the weighted sum of the profiles of the components (joint convexity). The service
    answers with this bound, which is attained. The request states how private each component is, not what its releases
    are. Releases that reveal their component (by their shape, units or offset) leave the curve of every component
    unchanged. A mixture of brackets is a bracket. The mixture is outermost and not a step of a composition.
    """

    type: ClassVar[str] = "mixture"
    type_premises = (DRAW_IS_INDEPENDENT,)
    components: tuple[WeightedMechanism, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.components) <= COMPONENTS:
            raise OutOfDomain("components", len(self.components), f"a list of 1 to {COMPONENTS} components")
        total = _total(self.components)
        if abs(total - 1) > WEIGHT_SUM_TOLERANCE:
            raise OutOfDomain("components", float(total), "components whose weights sum to 1 (within 1e-12)")

    def drawn(self) -> tuple[tuple[Fraction, AbstractMechanism], ...]:
        """Return the possible mechanisms of the mixture.

        Returns
        -------
        tuple of (Fraction, AbstractMechanism)
            Exact share and mechanism, without nested mixtures and duplicates.
        """
        total = _total(self.components)
        shares: dict[AbstractMechanism, Fraction] = {}
        for component in self.components:
            share = Fraction(component.weight) / total
            inner = component.mechanism
            for part, mechanism in inner.drawn() if isinstance(inner, Mixture) else ((Fraction(1), inner),):
                shares[mechanism] = shares.get(mechanism, Fraction(0)) + share * part
        return tuple((share, mechanism) for mechanism, share in shares.items())

    @property
    @override
    def inner(self) -> tuple[AbstractMechanism, ...]:
        return tuple(component.mechanism for component in self.components)

    @override
    def elementary_steps(self) -> NoReturn:
        """Raise UnsupportedCombination, because the steps depend on the mechanism that is drawn."""
        raise _inside("a list of steps")


def refuse_mixtures(kind: str, mechanisms: Iterable[AbstractMechanism]) -> None:
    """Raise UnsupportedCombination if one of `mechanisms`, the parts of a mechanism `kind`, is a mixture."""
    for mechanism in mechanisms:
        if isinstance(mechanism, Mixture):
            raise _inside(kind)


def _inside(kind: str) -> UnsupportedCombination:
    return UnsupportedCombination(
        "mechanism",
        f"mixture inside {kind}",
        "the draw applies to all steps together. Make the mixture the outermost mechanism.",
        ("mixture of repeated", "mixture of composed", "mixture of mixture"),
    )


def _total(components: Iterable[WeightedMechanism]) -> Fraction:
    return sum((Fraction(component.weight) for component in components), Fraction(0))
