"""Composition of different mechanisms on the same data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractMechanism, Steps, merged
from service.privacy.mechanisms.caveats import PARTS_ARE_INDEPENDENT
from service.privacy.mechanisms.domain import COMPONENTS, check_fields
from service.privacy.mechanisms.mixture import refuse_mixtures


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Composed(AbstractMechanism):
    """Composition of `mechanisms` on the same data.

    Each mechanism may depend on the outputs of earlier mechanisms. The order is the worst one.

    Notes
    -----
    Only compositions with several exponential mechanisms depend on the order. The bound of the composition is attained
    where the pair of laws of each step is attained (`repeated.py`). The pairs of data sets that attain the steps are
    compatible, since the queries are left open as well: the record moves each query of the composition as it moves the
    query alone.
    """

    type: ClassVar[str] = "composed"
    type_premises = (PARTS_ARE_INDEPENDENT,)
    mechanisms: tuple[AbstractMechanism, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= len(self.mechanisms) <= COMPONENTS:
            raise OutOfDomain("mechanisms", len(self.mechanisms), f"a list of 1 to {COMPONENTS} mechanisms")
        refuse_mixtures(self.type, self.mechanisms)

    @property
    @override
    def inner(self) -> tuple[AbstractMechanism, ...]:
        return self.mechanisms

    @override
    def elementary_steps(self) -> Steps:
        return merged(pair for mechanism in self.mechanisms for pair in mechanism.elementary_steps())
