"""Unary encoding: a person reports a vector of bits, each flipped independently."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Final, final

from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractStep, Steps
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.discrete.atomic_step import CopiesStep, three_atom_step
from service.privacy.mechanisms.discrete.local import REPORTS_ARE_LOCAL, REPORTS_MAY_REPEAT, LocalStep
from service.privacy.mechanisms.domain import BIT, BITS_PER_VALUE, check_fields
from service.privacy.mechanisms.groups import between
from service.privacy.mechanisms.neighbours import ONE_REPLACED
from service.privacy.numerics.rounding import FUNCTION_ERROR, rounded

LARGEST_GROWTH: Final = Fraction(2) ** 1023
"""Largest e^epsilon - 1 of a pair of bits that is computed as a double. Tiny probabilities of bits exceed it."""
SOURCE = "Wang, Blocki, Li, Jha 2017 (unary encoding), law of the loss"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UnaryEncoding(LocalStep):
    """Report of a vector of bits, in which the bits of the true value are 1 more often than the others.

    Attributes
    ----------
    true_bit, false_bit : float
        Probability p with which a bit of the true value is reported as 1, and probability q < p of the other bits.
    bits_per_value : int
        Number b of bits that belong to a value (hash functions of a Bloom filter). Different values share no bit in
        the worst case.

    Notes
    -----
    For values v and w that share no bit, b bits are 1 with probability p against q, and b bits with q against p. A bit
    of v and a bit of w together have the loss +-ln(p (1 - q)/(q (1 - p))) if they differ, and 0 if they agree. They
    agree with the probability p q + (1 - p)(1 - q) under both hypotheses. The b such pairs are independent. Bits that v
    and w share have one law under both hypotheses. Omitting them is a function of the report, so fewer different bits
    are not worse. For p = 1 or q = 0 bits that differ reveal the value.
    """

    type: ClassVar[str] = "unary_encoding"
    type_premises = (REPORTS_ARE_LOCAL,)
    type_hazards = (REPORTS_MAY_REPEAT,)
    true_bit: Annotated[float, BIT]
    false_bit: Annotated[float, BIT]
    bits_per_value: Annotated[int, BITS_PER_VALUE] = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.true_bit <= self.false_bit:
            raise OutOfDomain("true_bit", self.true_bit, f"above false_bit, {self.false_bit}")

    @override
    def elementary_steps(self) -> Steps:
        """Return one step for each bit of a value: a bit of the first value with a bit of the second."""
        one = UnaryEncoding(true_bit=self.true_bit, false_bit=self.false_bit)
        return ((one, self.bits_per_value),)

    @override
    def report(self) -> AbstractStep:
        if self.bits_per_value > 1:
            ((one, _),) = self.elementary_steps()
            return CopiesStep(step=one.under(ONE_REPLACED), count=self.bits_per_value)
        p, q = Fraction(self.true_bit), Fraction(self.false_bit)
        agree = p * q + (1 - p) * (1 - q)
        if p == 1 or q == 0:
            low, high = (ApproximateDp(epsilon=0.0, delta=rounded(1 - agree, side)) for side in (-1, 1))
            return between(low, high)
        growth = (p - q) / (q * (1 - p))
        if growth < LARGEST_GROWTH:
            epsilon = math.log1p(float(growth))
        else:
            epsilon = math.log(float(p - q)) - math.log(float(q)) - math.log(float(1 - p))
        log_apart = math.log(float(1 - agree)) if agree > Fraction(1, 2) else math.log1p(-float(agree))
        log_zero = math.log(float(agree)) if agree < Fraction(1, 2) else math.log1p(-float(1 - agree))
        return three_atom_step(epsilon, log_zero, log_apart, SOURCE, 2 * FUNCTION_ERROR * epsilon)
