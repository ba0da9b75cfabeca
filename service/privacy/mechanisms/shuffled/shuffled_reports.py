"""Shuffled reports: many persons answer by one local randomiser, and the answers lose their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, cast, final

from typing_extensions import override

from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism, AbstractStep, Part
from service.privacy.mechanisms.caveats import PARAMETERS_ARE_PROVED, MechanismHazard, Premise
from service.privacy.mechanisms.discrete.randomized_response import RandomizedResponse
from service.privacy.mechanisms.domain import OTHERS, REPORTS, check_fields
from service.privacy.mechanisms.neighbours import ONE_REPLACED, REPLACE, Neighbours
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.mechanisms.shuffled.steps import AnyShuffled, EveryDataSet, HeldOnes
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shuffled.data_sets import can_list

LARGEST_LOCAL_EPSILON: Final = 100.0
"""Largest eps0 of a randomiser whose reports are shuffled, nats."""

ORDER_IS_SECRET: Final = Premise(
    "order_is_secret",
    "The attacker sees the reports only after a uniformly random permutation, which is secret. Nothing else links a "
    "report to its person (no time, address or size). The number of reports is public.",
    about="records",
)
ONE_RANDOMIZER: Final = Premise(
    "one_randomizer",
    "All persons answer by the same randomiser, once for each round, with fresh secret random numbers. No person's "
    "randomiser reads the reports of other persons.",
    about="noise",
)
ONLY_HONEST_REPORTS: Final = MechanismHazard(
    code="only_honest_reports",
    text="Reports of persons who collude with the attacker, or who do not follow the randomiser, hide nobody. Count "
    "only honest reports in `reports`.",
    about="records",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledReports(AbstractStep):
    """Reports of n persons by one local randomiser in a secret random order, under `replace_one`.

    Attributes
    ----------
    reports : int
        Number n of reports.
    randomizer : AbstractMechanism
        `pure_dp` for any eps0-DP randomiser, or `randomized_response`.
    others_holding_one : int or None
        Number of other persons who hold the value 1, for binary randomised response; None for every data set.

    Notes
    -----
    `pairs.py` has the theorems. A missing report is visible, so that no shuffled reports are private under
    `add_or_remove_one` or `zero_out`.
    """

    type: ClassVar[str] = "shuffled_reports"
    type_premises = (ORDER_IS_SECRET, ONE_RANDOMIZER)
    type_hazards = (ONLY_HONEST_REPORTS,)
    reports: Annotated[int, REPORTS]
    randomizer: AbstractMechanism
    others_holding_one: Annotated[int | None, OTHERS] = None

    def __post_init__(self) -> None:
        check_fields(self)
        randomizer, others = self.randomizer, self.others_holding_one
        if not isinstance(randomizer, PureDp | RandomizedResponse):
            raise UnsupportedCombination(
                "mechanism",
                f"shuffled_reports of {randomizer.type}",
                "shuffled reports are known for randomisers of which only epsilon is stated, and for randomised "
                "response.",
                (PureDp.type, RandomizedResponse.type),
            )
        if randomizer.epsilon > LARGEST_LOCAL_EPSILON:
            remedy = "Reports of a larger epsilon are not private: describe them without shuffling."
            raise OutOfDomain("epsilon", randomizer.epsilon, f"a number in [0, {LARGEST_LOCAL_EPSILON:g}]", remedy)
        if others is not None:
            if not isinstance(randomizer, RandomizedResponse) or randomizer.options != 2:
                remedy = "Remove it, or send randomized_response with options 2."
                raise OutOfDomain("others_holding_one", others, "absent for this randomizer", remedy)
            if others >= self.reports:
                raise OutOfDomain("others_holding_one", others, f"at most reports - 1, {self.reports - 1}")

    @property
    @override
    def premises(self) -> tuple[Premise, ...]:
        # The premise of a local mechanism, whose reports may be linked to persons, does not apply.
        stated = (PARAMETERS_ARE_PROVED,) if isinstance(self.randomizer, PureDp) else ()
        return (*self.type_premises, *stated)

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        if neighbours.relation != REPLACE:
            reason = "every person sends one report, so a missing record is visible in the number of reports."
            raise neighbours.refused(self.type, reason, (REPLACE,))
        if neighbours.records > 1:
            reason = "no theorem here bounds shuffled reports of which one person sends several."
            raise neighbours.refused(self.type, reason, ("one record",))
        randomizer = cast("PureDp | RandomizedResponse", self.randomizer)  # checked when the value was built
        epsilon = float(randomizer.epsilon)
        if self.reports == 1 or epsilon == 0:
            return randomizer.under(neighbours)
        if isinstance(randomizer, PureDp):
            return AnyShuffled(reports=self.reports, epsilon=epsilon)
        if self.others_holding_one is not None:
            return HeldOnes(reports=self.reports, epsilon=epsilon, others=self.others_holding_one)
        if can_list(self.reports, randomizer.options, epsilon):
            return EveryDataSet(reports=self.reports, epsilon=epsilon, options=randomizer.options)
        return AnyShuffled(reports=self.reports, epsilon=epsilon, options=randomizer.options)

    @override
    def curves(self) -> TradeOffPair:
        return self.under(ONE_REPLACED).curves()

    @override
    def part(self) -> Part | None:
        return None
