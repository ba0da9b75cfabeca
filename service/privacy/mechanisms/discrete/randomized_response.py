"""Randomised response: a person reports the own value or another one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.discrete.atomic_step import three_atom_step
from service.privacy.mechanisms.discrete.local import REPORTS_ARE_LOCAL, REPORTS_MAY_REPEAT, LocalStep
from service.privacy.mechanisms.domain import EPSILON, OPTIONS

SOURCE = "Kairouz, Bonawitz, Ramage 2016 (k-ary randomised response), law of the loss"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RandomizedResponse(LocalStep):
    """Report of one of `options` values: the true value with probability e^epsilon/(e^epsilon + options - 1).

    Attributes
    ----------
    epsilon : float
        ln of the ratio of the probabilities of the true value and of any other value.
    options : int
        Number k of possible values, at least 2.

    Notes
    -----
    Let the true value be v or w. The report v has the loss epsilon or -epsilon, w the opposite, and every one of the
    other k - 2 values has the loss 0. The others have together, under both hypotheses, the probability
    (k - 2)/(e^epsilon + k - 1).
    """

    type: ClassVar[str] = "randomized_response"
    type_premises = (REPORTS_ARE_LOCAL,)
    type_hazards = (REPORTS_MAY_REPEAT,)
    epsilon: Annotated[float, EPSILON]
    options: Annotated[int, OPTIONS]

    @override
    def report(self) -> AbstractStep:
        epsilon = float(self.epsilon)
        tail = math.exp(-epsilon)
        total = math.log1p((self.options - 1) * tail)
        log_zero = math.log(self.options - 2) - epsilon - total if self.options > 2 else -math.inf
        return three_atom_step(epsilon, log_zero, math.log1p(tail) - total, SOURCE)
