"""Local mechanisms: every person perturbs the own record and sends a report."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, DescribedStep
from service.privacy.mechanisms.caveats import MechanismHazard, Premise
from service.privacy.mechanisms.discrete.atomic_step import CopiesStep, SampledAtoms
from service.privacy.mechanisms.neighbours import ONE_REPLACED, REPLACE, Neighbours
from service.privacy.mechanisms.pure_dp import PureDp

REPORTS_ARE_LOCAL: Final = Premise(
    "reports_are_local",
    "Every record is reported once, by its own person, with fresh secret random numbers. No report depends on another "
    "record, and the attacker may know who sent it.",
    about="noise",
)
REPORTS_MAY_REPEAT: Final = MechanismHazard(
    code="reports_may_repeat",
    text="Fresh reports of one person add up. Send `repeated` with the number of reports of a person, or `records` "
    "of worst_case if the person has several records.",
    about="noise",
)
MOST_REPORTS: Final = 10_000
"""Largest number of reports of one person that are composed."""


class LocalStep(DescribedStep):
    """Step in which a person reports one record, under `replace_one`.

    A subclass defines `report`.

    Notes
    -----
    Neighbouring data sets have different values of one record, and only its report differs in law. All pairs of values
    have the same law of the loss by symmetry, so the law is attained. If a person has k records, k independent reports
    differ, and their losses add up: k records are a composition of k steps. A data set without the record has no
    report, so it is recognised at once, and no local mechanism is private under `add_or_remove_one` or `zero_out`.
    """

    __slots__ = ()
    default_neighbours = ONE_REPLACED

    @abstractmethod
    def report(self) -> AbstractStep:
        """Return the step of one report, with the pair of laws of two different values of the record."""

    @final
    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        if neighbours.relation != REPLACE:
            reason = (
                "a local mechanism sends one report for each record, so a missing record is visible. No randomiser of "
                "reports hides whether a person takes part."
            )
            raise neighbours.refused(self.type, reason, (REPLACE,))
        step = self.report()
        if neighbours.records == 1 or (isinstance(step, PureDp) and step.epsilon == 0):
            return step
        if neighbours.records > MOST_REPORTS or not step.has_listed_losses:
            reason = f"reports of more than {MOST_REPORTS} records of one person are not supported."
            raise neighbours.refused(self.type, reason, (f"up to {MOST_REPORTS} records",))
        return CopiesStep(step=step, count=neighbours.records)

    @override
    def sampled_under(self, rate: float, neighbours: Neighbours) -> AbstractStep | None:
        """Return the step if every record is reported with probability `rate` only, independently.

        The result is None for too many records of one person, and for reports whose losses are not listed.

        Notes
        -----
        Let q be the rate, and R the law of everything without a report of the record. P and Q are the laws with a
        report of its first and second value. Consider (1 - q) R + q P against (1 - q) R + q Q. By joint convexity these
        laws are at most as easy to tell apart as the pairs R, R and P, Q with a visible draw. The loss is then 0 with
        probability 1 - q, and that of the report otherwise. A missing report is visible, so this law is attained.
        """
        step = self.under(Neighbours(neighbours.relation))
        if neighbours.records > MOST_REPORTS or not step.has_listed_losses:
            return None
        sampled = SampledAtoms(step=step, rate=float(rate), shows_draw=True)
        return sampled if neighbours.records == 1 else CopiesStep(step=sampled, count=neighbours.records)
