"""Evaluation of the questions of a request in rounds: the first round answers all, later rounds narrow wide answers.

*Work* is counted in units of about 1 us of CPU time. An answer is *cut short* if its share of the work was spent first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, final

from api_schemas.choices import Direction
from api_schemas.questions import QuestionSpec
from service.privacy.errors import PrivacyComputationError
from service.privacy.numerics.work import Work, at_most, is_late, remaining_work
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.allowance import OF_SEVERAL
from service.resources.answers import EngineAnswer, evaluate_question, narrower
from service.resources.deadlines import is_too_late
from service.resources.joint_answers import implied_curves, joint_answers
from service.resources.parts import attribute_error

FIRST_ROUND: Final = 1 / 2
"""Share of the remaining work for the first round, in which each question takes an equal part."""
MU: Final = 1 / 4
"""Smallest share of the remaining allowance for questions of mu, if a request has any."""
LEAST_TURN: Final = 1 / 2
"""Smallest share of the remaining work for a repeated question: a smaller one may not suffice for a lattice."""
WIDEST_FIRST: Final = (False, True, False)
"""Order of wide answers in each further round."""
SHARED_TURNS: Final = 4
"""Number of turns after which all others are evaluated without work: these turns compose the lattices of most numbers.
"""


@final
@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """Question `sent` of the request, and the question `read` that is evaluated in its place.

    The evaluated question may have another prior, and `notes` then say so. `pointer` is the JSON pointer of the sent
    one.
    """

    sent: QuestionSpec
    read: QuestionSpec
    notes: tuple[str, ...]
    pointer: str


def read_in_rounds(
    curves: TradeOffPair, questions: Sequence[AskedQuestion], tolerance: float, work: Work
) -> list[EngineAnswer]:
    """Return the answers of `curves` to `questions` within the rest of `work`, each narrowed by the others.

    `tolerance` is the relative width at which an answer is narrow enough. A single question may use all work. mu is
    evaluated after the other questions, because it needs many numbers. Raises PrivacyComputationError with the JSON
    pointer of the question.
    """
    if len(questions) == 1 and not (curves.add.evidence.is_certain and is_too_late(has_answer=False)):
        [asked] = questions
        answer = _evaluate_within(work.left, asked, partial(_first_answer, curves, asked.read, tolerance))
        return joint_answers(curves, [asked.read], [answer], tolerance) if answer.limit is not None else [answer]
    reading = _AnswersInRounds(curves, questions, tolerance, work.left / OF_SEVERAL)
    long = [at for at, each in enumerate(questions) if each.read.type == "gdp_mu"]
    short = [at for at in range(len(questions)) if at not in long]
    with at_most(work.left * (min(len(short) / len(questions), 1 - MU) if long else 1.0)):
        reading.read(short, work, FIRST_ROUND)
        reading.read_again(short, work)
    reading.read(long, work, 1.0)
    reading.read_again([*short, *long], work)
    return reading.settled(range(len(questions)))


@final
@dataclass(slots=True)
class _AnswersInRounds:
    curves: TradeOffPair
    questions: Sequence[AskedQuestion]
    tolerance: float
    most: float
    found: dict[int, EngineAnswer] = field(default_factory=dict[int, EngineAnswer])
    _implied: dict[Direction, TradeOffPair] = field(default_factory=dict["Direction", TradeOffPair])

    def read(self, numbers: Sequence[int], work: Work, share: float) -> None:
        # later questions share the work that earlier questions leave unused
        for place, at in enumerate(numbers):
            self._evaluate_question_at(at, work.left * share / (len(numbers) - place))

    def read_again(self, numbers: Sequence[int], work: Work) -> None:
        # The narrowest answers need the least work, but evaluating them first may leave too little for the widest. A
        # discretised law that one question computed is cached, and may narrow others: after each of the first
        # evaluations, the remaining questions are evaluated without work of their own, until they gain nothing.
        turns, gaining = 0, set(numbers)
        for widest_first in WIDEST_FIRST:
            if is_late():
                return
            wide = sorted(self._indices_cut_short(numbers), key=lambda at: self.found[at].widest, reverse=widest_first)
            for place, at in enumerate(wide):
                if work.left <= 0 or is_late():
                    return
                if not self.found[at].cut_short:
                    continue
                self._evaluate_question_at(
                    at, min(max(work.left / (len(wide) - place), work.left * LEAST_TURN), self.most)
                )
                turns += 1
                for other in [other for other in wide[place + 1 :] if other in gaining and turns <= SHARED_TURNS]:
                    before = self.found[other]
                    self._evaluate_question_at(other, 0.0)
                    if self.found[other] is before:
                        gaining.remove(other)

    def settled(self, numbers: Sequence[int]) -> list[EngineAnswer]:
        read = [self.questions[at].read for at in numbers]
        return joint_answers(self.curves, read, [self.found[at] for at in numbers], self.tolerance)

    def _implied_curves(self) -> dict[Direction, TradeOffPair]:
        questions = [self.questions[at].read for at in self.found]
        return implied_curves(self.curves, questions, [*self.found.values()])

    def _indices_cut_short(self, numbers: Sequence[int]) -> list[int]:
        # answers to other questions about the same curve may narrow an answer before this check
        if not any(self.found[at].cut_short for at in numbers):
            return []
        settled = zip(numbers, self.settled(numbers), strict=True)
        return [at for at, answer in settled if self.found[at].cut_short and answer.limit is not None]

    def _evaluate_question_at(self, at: int, share: float) -> None:
        # When the time of the request is over, a question without an answer has the bounds that the known answers
        # imply.
        asked, known = self.questions[at], self.found.get(at)
        if (
            known is None
            and self.curves.add.evidence.is_certain
            and (self._implied or is_too_late(has_answer=bool(self.found)))
        ):
            self._implied = self._implied or self._implied_curves()
            curves = self._implied[asked.read.direction]
            self.found[at] = _evaluate_within(
                share, asked, partial(evaluate_question, curves, asked.read, self.tolerance)
            )
            return
        read = _first_answer if known is None else partial(_refined_answer, known)
        self.found[at] = _evaluate_within(share, asked, partial(read, self.curves, asked.read, self.tolerance))


def _evaluate_within(share: float, asked: AskedQuestion, read: Callable[[], EngineAnswer]) -> EngineAnswer:
    try:
        with at_most(share):
            return read()
    except PrivacyComputationError as error:
        raise attribute_error(error, asked.pointer, asked.sent) from None


def _first_answer(curves: TradeOffPair, question: QuestionSpec, tolerance: float) -> EngineAnswer:
    # against a weaker attacker: the worst case caps the answer, and may use half of the remaining work
    if curves.worst_case is None:
        return evaluate_question(curves, question, tolerance)
    with at_most(remaining_work() / 2):
        worst = evaluate_question(curves.worst_case, question, tolerance)
    found = evaluate_question(curves, question, tolerance)
    return replace(found, cut_short=found.cut_short or worst.cut_short)


def _refined_answer(
    known: EngineAnswer, curves: TradeOffPair, question: QuestionSpec, tolerance: float
) -> EngineAnswer:
    if curves.worst_case is not None:
        with at_most(remaining_work() / 2):
            narrower(evaluate_question(curves.worst_case, question, tolerance), curves.worst_case, question, tolerance)
    return narrower(known, curves, question, tolerance)
