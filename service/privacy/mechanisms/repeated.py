"""Repetition of one mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractMechanism, Steps, merged
from service.privacy.mechanisms.caveats import PARTS_ARE_INDEPENDENT
from service.privacy.mechanisms.domain import STEPS, check_fields
from service.privacy.mechanisms.mixture import refuse_mixtures


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(AbstractMechanism):
    """Repetition of `mechanism`, `steps` times on the same data. Each repetition may depend on earlier outputs.

    Notes
    -----
    Dominating pairs compose adaptively (Zhu, Dong, Wang 2022, Theorem 10), which gives an upper bound. The bound is
    attained if one choice of data sets attains the pair of the step in every step, without any adaptivity. The method
    `AbstractStep.attained` of the step states this.
    """

    type: ClassVar[str] = "repeated"
    type_premises = (PARTS_ARE_INDEPENDENT,)
    mechanism: AbstractMechanism
    steps: Annotated[int, STEPS]

    def __post_init__(self) -> None:
        check_fields(self)
        refuse_mixtures(self.type, (self.mechanism,))

    @property
    @override
    def inner(self) -> tuple[AbstractMechanism, ...]:
        return (self.mechanism,)

    @override
    def elementary_steps(self) -> Steps:
        return merged((step, count * self.steps) for step, count in self.mechanism.elementary_steps())
