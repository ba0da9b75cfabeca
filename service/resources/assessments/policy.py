"""Rules of a policy: their answers, each evaluated once, and a second evaluation of undecided rules.

A *rule* is a question with a limit. The *judged* run has the changes of all hazards; the *described* run has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

from api_schemas.assessments import AssessedAssumption, AssessmentsRequest
from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.policies import PolicyRule
from service.privacy.numerics.work import at_most
from service.resources.abstract import ResponseFields
from service.resources.allowance import WorkBudgetShares
from service.resources.assessments.answering import Answering, curves_of, worst_case_of
from service.resources.assessments.judged import AssessedRun
from service.resources.assessments.premises import assessed
from service.resources.assessments.rule_results import RulingGrounds, ruling, verdict_of
from service.resources.parts import assumptions_of, mechanism_of, threat_model_of
from service.resources.read_numbers import ReadNumber

SECOND_WORK: Final = 4e6
"""Microseconds of work for rules that their share of the allowance left undecided."""


@final
class Rules:
    """Rules of the policy of a request, answered for the run `run` with the changes of its hazards."""

    def __init__(self, request: AssessmentsRequest, run: AssessedRun, asking: Answering) -> None:
        self._request, self._run, self._asking = request, run, asking
        self._rules: Sequence[PolicyRule] = () if request.policy is None else request.policy.rules
        self._answers: list[ResponseFields] = []

    @property
    def assumptions(self) -> Iterator[Assumption]:
        """Assumptions about the attackers of the policy rules."""
        for rule in self._rules:
            yield from self._about_attacker(rule)

    def assumptions_of(self, rule: PolicyRule) -> tuple[AssessedAssumption, ...]:
        """Return the assumptions about the attacker of a policy rule, each with the attestation of the request."""
        return assessed(self._about_attacker(rule), self._request.context)

    def _about_attacker(self, rule: PolicyRule) -> tuple[Assumption, ...]:
        if rule.threat_model is None:
            return ()
        return assumptions_of(threat_model_of(rule.threat_model), mechanism_of(self._run.for_relaxed))

    def answer(self) -> None:
        """Answer every rule of the policy with the work that the caller allows, and store the answers.

        Raises PrivacyComputationError with the JSON pointer of a part of a rule.
        """
        self._answers = [self._asking.rule(rule, _place(index)) for index, rule in enumerate(self._rules)]

    def rule_results(self, grounds: RulingGrounds) -> list[ResponseFields]:
        """Return the result of every rule as fields of `Ruling`, after `answer`.

        Rules that are undecided for lack of work are evaluated again. `grounds` is what the verdicts rest on beside the
        numbers.
        """
        with at_most(SECOND_WORK) as work:
            again = [index for index, rule in enumerate(self._rules) if _is_cut_short(rule, self._answers[index])]
            beside = sum(not grounds.is_attained(rule) for rule in self._rules)
            shares = WorkBudgetShares(work, len(again) + beside)
            for index in again:
                with shares.next_share():
                    self._answers[index] = self._asking.again(self._rules[index], _place(index))
            described = _DescribedRunAnswers(self._request, grounds.run, shares)
            return [
                ruling(rule, answer, grounds, lambda index=index, rule=rule: described.answer(rule, _place(index)))
                for index, (rule, answer) in enumerate(zip(self._rules, self._answers, strict=True))
            ]


@final
class _DescribedRunAnswers:
    def __init__(self, request: AssessmentsRequest, run: AssessedRun, shares: WorkBudgetShares) -> None:
        self._request, self._run, self._shares = request, run, shares
        self._asking: Answering | None = None

    def answer(self, rule: PolicyRule, place: str) -> ResponseFields:
        if self._asking is None:
            tolerance = self._request.relative_tolerance
            asked = worst_case_of(self._run, tolerance, (rule.question,))
            self._asking = Answering(self._run, tolerance, curves_of(asked), self._shares)
        return self._asking.rule(rule, place)


def _place(index: int) -> str:
    return f"/policy/rules/{index}"


def _is_cut_short(rule: PolicyRule, answer: ResponseFields) -> bool:
    undecided = verdict_of(rule, ReadNumber.of(answer, rule.reads)) == "undecided"
    return undecided and not answer["tolerance_met"] and answer["lower" if "lower" in answer else "points"] is not None
