"""Answers of an assessment: each question is evaluated once, even if the policy repeats it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, final

from api_schemas.bounds import BoundsRequest
from api_schemas.policies import PolicyRule
from api_schemas.questions import QuestionSpec, TradeOffQuestion
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel
from service.privacy.errors import PrivacyComputationError
from service.privacy.numerics.work import Work
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.abstract import ResponseFields
from service.resources.allowance import WorkBudgetShares
from service.resources.answers import EngineAnswer, evaluate_question, narrower
from service.resources.assessments.judged import AssessedRun
from service.resources.bounds import ResolvedRequest, resolve_request
from service.resources.joint_answers import joint_answers
from service.resources.nested import evaluate_nested
from service.resources.parts import attribute_error
from service.resources.rounds import AskedQuestion, read_in_rounds

NOTHING_RESOLVED: Final[Mapping[BoundsRequest, ResolvedRequest]] = MappingProxyType({})


def worst_case_of(run: AssessedRun, tolerance: float, questions: Sequence[QuestionSpec]) -> BoundsRequest:
    """Return a request for bounds that puts `questions` about `run` against the worst case, with this tolerance."""
    return BoundsRequest(
        mechanism=run.mechanism,
        threat_model=run.threat_model,
        questions=tuple(questions),
        relative_tolerance=tolerance,
    )


def curves_of(asked: BoundsRequest, resolved: ResolvedRequest | None = None) -> TradeOffPair:
    """Return the trade-off curves of the request `asked` for bounds.

    `resolved` is the same request with its chosen engines, if they are known. Raises PrivacyComputationError with a
    JSON pointer into the request for the assessment.
    """
    try:
        return (resolved or resolve_request(asked)).primary.curves
    except PrivacyComputationError as error:
        raise attribute_error(error, "/threat_model", asked.threat_model) from None


@final
class Answering:
    """Answers to questions about one run of an assessment, each computed once.

    The trade-off `curves` are those of `run` against the worst case. Answers aim at the relative width `tolerance`.
    `shares` has one share of the allowed work for each distinct question. `resolved_requests` has requests whose
    engines are already chosen.
    """

    def __init__(
        self,
        run: AssessedRun,
        tolerance: float,
        curves: TradeOffPair,
        shares: WorkBudgetShares,
        resolved_requests: Mapping[BoundsRequest, ResolvedRequest] = NOTHING_RESOLVED,
    ) -> None:
        self._run, self._tolerance, self._shares, self.curves = run, tolerance, shares, curves
        self._resolved_requests = resolved_requests
        self._known: dict[tuple[ThreatModelSpec, QuestionSpec], ResponseFields] = {}
        self._found: dict[QuestionSpec, EngineAnswer] = {}
        """Answers against the strongest attacker, by question, with their enclosures."""

    def keep(self, model: ThreatModelSpec, answers: Sequence[ResponseFields]) -> None:
        """Store `answers` (fields of responses) against the attacker `model`, each under its `question`."""
        self._known |= {(model, answer["question"]): answer for answer in answers}

    def together(self, questions: Mapping[QuestionSpec, str], work: Work) -> None:
        """Evaluate and store the answers to `questions` against the strongest attacker, each narrowed by the others.

        `questions` maps each question to its JSON pointer in the request. The questions use their share of `work`, the
        allowance of the assessment. Raises PrivacyComputationError with the JSON pointer of a question.
        """
        asked = [AskedQuestion(question, question, (), pointer) for question, pointer in questions.items()]
        with self._shares.next_share(len(asked)):
            found = read_in_rounds(self.curves, asked, self._tolerance, work)
        self._store(list(zip(questions, found, strict=True)))

    def _store(self, found: Sequence[tuple[QuestionSpec, EngineAnswer]]) -> None:
        self._found.update(found)
        self.keep(self._run.threat_model, [each.answer(asked, conditional=False) for asked, each in found])

    def worst_case(self, question: QuestionSpec, pointer: str) -> ResponseFields:
        """Return the answer to `question` against the strongest attacker, stored or computed now.

        Raises PrivacyComputationError with the JSON pointer `pointer`.
        """
        model = self._run.threat_model
        known = self._known_answer(model, question)
        if known is None:
            with self._shares.next_share():
                self._evaluate_and_store(question, pointer)
            known = self._known[model, question]
        return known

    def rule(self, rule: PolicyRule, place: str) -> ResponseFields:
        """Return the answer to the question of a policy rule against the rule's attacker, stored or computed now.

        `place` is the JSON pointer of the rule. Raises PrivacyComputationError with a pointer at or below it.
        """
        model = attacker_of(rule, self._run)
        if model is None or model == self._run.threat_model:
            return self.worst_case(rule.question, f"{place}/question")
        known = self._known_answer(model, rule.question)
        if known is None:
            with self._shares.next_share():
                known = self._ruled(rule, place)
            self.keep(model, [known])
        return known

    def again(self, rule: PolicyRule, place: str) -> ResponseFields:
        """Compute the answer to a policy rule again, with all work that the caller allows. Store and return it.

        `place` is the JSON pointer of the rule. Raises PrivacyComputationError with a pointer at or below it.
        """
        model = attacker_of(rule, self._run) or self._run.threat_model
        if model == self._run.threat_model:
            self._evaluate_and_store(rule.question, f"{place}/question")
        else:
            self.keep(model, [self._ruled(rule, place)])
        return self._known[model, rule.question]

    def _ruled(self, rule: PolicyRule, place: str) -> ResponseFields:
        asked, places = ruled(self._run, rule, place, self._tolerance)
        return evaluate_nested(asked, places, self._resolved_requests.get(asked))["answers"][0]

    def _evaluate_and_store(self, question: QuestionSpec, pointer: str) -> None:
        # A stored answer that was cut short is evaluated again. Bounds that other stored answers imply narrow the
        # answer.
        before = self._found.get(question)
        try:
            if before is None:
                found = evaluate_question(self.curves, question, self._tolerance)
            else:
                found = narrower(before, self.curves, question, self._tolerance)
        except PrivacyComputationError as error:
            raise attribute_error(error, pointer, question) from None
        known = [pair for pair in self._found.items() if pair[0] != question]
        asked, answers = [each for each, _ in known], [answer for _, answer in known]
        *_, last = joint_answers(self.curves, [*asked, question], [*answers, found], self._tolerance)
        self._store([(question, last)])

    def _known_answer(self, model: ThreatModelSpec, question: QuestionSpec) -> ResponseFields | None:
        found = self._known.get((model, question))
        if found is not None or not isinstance(question, TradeOffQuestion):
            return found
        for (asked_of, asked), answer in self._known.items():
            if asked_of == model and contains(asked, question):
                (rate,) = question.false_positive_rates
                point = next(each for each in answer["points"] if each["false_positive_rate"] == rate)
                return {**answer, "question": question, "points": [point]}
        return None


def contains(asked: QuestionSpec, question: QuestionSpec) -> bool:
    """Return whether the answer to the trade-off question `asked` has the only point that `question` asks for.

    Both questions have the same direction then. The result is False for other questions, and if `question` has several
    rates.
    """
    if not (isinstance(asked, TradeOffQuestion) and isinstance(question, TradeOffQuestion)):
        return False
    rate, *more = question.false_positive_rates
    return not more and asked.direction == question.direction and rate in asked.false_positive_rates


def attacker_of(rule: PolicyRule, run: AssessedRun) -> ThreatModelSpec | None:
    """Return the attacker that the policy rule `rule` names, or None if it names none.

    If the attacker is the worst case without a number of records, the records of one privacy unit count.
    """
    model, records = rule.threat_model, run.threat_model.records
    if isinstance(model, WorstCaseThreatModel) and model.records is None and records is not None:
        return model.model_copy(update={"records": records})
    return model


def ruled(run: AssessedRun, rule: PolicyRule, place: str, tolerance: float) -> tuple[BoundsRequest, dict[str, str]]:
    """Return the request for bounds that a policy rule needs, and a map of JSON pointers.

    The map has the pointers of threat model and question in the rule, at the pointer `place`, by their pointers in the
    request for bounds. The attacker is that of the rule, by default the worst case. `tolerance` is the relative width
    of answers that the request asks for.
    """
    model = attacker_of(rule, run)
    given: dict[str, Any] = {} if model is None else {"threat_model": model}
    described = run.mechanism if model is None or isinstance(model, WorstCaseThreatModel) else run.for_relaxed
    asked = BoundsRequest(mechanism=described, questions=(rule.question,), relative_tolerance=tolerance, **given)
    return asked, {"/threat_model": f"{place}/threat_model", "/questions/0": f"{place}/question"}


def distinct(rules: Sequence[PolicyRule], questions: Sequence[QuestionSpec]) -> int:
    """Return how many distinct pairs of attacker and question `rules` have that are not among `questions`.

    `questions` are about the worst case. A rule without an attacker is, too.
    """
    asked = {(rule.threat_model, rule.question) for rule in rules}
    return len(asked - {(None, question) for question in questions})
