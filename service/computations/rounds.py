"""The questions of a request, which share its allowance in rounds: all are answered first, then wide ones again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, final

from api_schemas.questions import QuestionSpec
from service.computations.allowance import OF_SEVERAL
from service.computations.answers import EngineAnswer, evaluate_question, narrower
from service.computations.joint_answers import joint_answers
from service.computations.parts import attribute_error
from service.privacy.errors import PrivacyComputationError
from service.privacy.numerics.work import Work, at_most, remaining_work
from service.privacy.trade_off.pair import TradeOffPair

FIRST_ROUND: Final = 1 / 2
"""Share of the remaining work for the first round, in which each question takes an equal part."""
MU: Final = 1 / 4
"""Least share of the remaining allowance for questions of mu, where a request has any."""
LEAST_TURN: Final = 1 / 2
"""Least share of the remaining work for a question that is read again: a smaller one may not suffice for a lattice."""
TURNS: Final = 3
"""Most further rounds of wide answers."""
SHARED_TURNS: Final = 4
"""Turns after which all others are read with no work: they compose the lattices that most numbers need."""


@final
@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question as it was sent, as it is read, with the notes on the difference, and its place in the request."""

    sent: QuestionSpec
    read: QuestionSpec
    notes: tuple[str, ...]
    pointer: str


def read_in_rounds(
    curves: TradeOffPair, questions: Sequence[AskedQuestion], tolerance: float, work: Work
) -> list[EngineAnswer]:
    """Return the answers of these curves within what is left of `work`, each narrowed by the others.

    A single question has all work. mu is read after the other questions: it reads many numbers, and takes what it gets.
    Raises PrivacyComputationError with the pointer of a question.
    """
    if len(questions) == 1:
        return [_within(work.left, questions[0], partial(_first, curves, questions[0].read, tolerance))]
    reading = _Rounds(curves, questions, tolerance, work.left / OF_SEVERAL)
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
class _Rounds:
    """The answers so far, by the number of the question. `most`: work that one question may take."""

    curves: TradeOffPair
    questions: Sequence[AskedQuestion]
    tolerance: float
    most: float
    found: dict[int, EngineAnswer] = field(default_factory=dict[int, EngineAnswer])

    def read(self, numbers: Sequence[int], work: Work, share: float) -> None:
        """Read these questions in turn within this share of the remaining work; each leaves the rest to those after."""
        for place, at in enumerate(numbers):
            self._read(at, work.left * share / (len(numbers) - place))

    def read_again(self, numbers: Sequence[int], work: Work) -> None:
        """Read wide answers whose share was spent with more work, in each round the narrowest first.

        The narrowest need least, so that they leave most to the others. After each of the first turns, the others are
        read with no work, because the lattices of one number also enclose others.
        """
        turns = 0
        for _ in range(TURNS):
            wide = sorted(self._cut_short(numbers), key=lambda at: self.found[at].widest)
            for place, at in enumerate(wide):
                if work.left <= 0:
                    return
                if not self.found[at].cut_short:
                    continue
                self._read(at, min(max(work.left / (len(wide) - place), work.left * LEAST_TURN), self.most))
                turns += 1
                for other in wide[place + 1 :] if turns <= SHARED_TURNS else ():
                    self._read(other, 0.0)

    def settled(self, numbers: Sequence[int]) -> list[EngineAnswer]:
        """Return the answers to these questions, each narrowed by the others."""
        read = [self.questions[at].read for at in numbers]
        return joint_answers(self.curves, read, [self.found[at] for at in numbers], self.tolerance)

    def _cut_short(self, numbers: Sequence[int]) -> list[int]:
        """Return which of these answers are wide, also beside the others, because their share was spent."""
        if not any(self.found[at].cut_short for at in numbers):
            return []
        settled = zip(numbers, self.settled(numbers), strict=True)
        return [at for at, answer in settled if self.found[at].cut_short and answer.limit is not None]

    def _read(self, at: int, share: float) -> None:
        asked, known = self.questions[at], self.found.get(at)
        read = _first if known is None else partial(_again, known)
        self.found[at] = _within(share, asked, partial(read, self.curves, asked.read, self.tolerance))


def _within(share: float, asked: AskedQuestion, read: Callable[[], EngineAnswer]) -> EngineAnswer:
    try:
        with at_most(share):
            return read()
    except PrivacyComputationError as error:
        raise attribute_error(error, asked.pointer, asked.sent) from None


def _first(curves: TradeOffPair, question: QuestionSpec, tolerance: float) -> EngineAnswer:
    """Return the answer of these curves. The worst case, which caps it, has half of the allowance."""
    if curves.worst_case is None:
        return evaluate_question(curves, question, tolerance)
    with at_most(remaining_work() / 2):
        worst = evaluate_question(curves.worst_case, question, tolerance)
    found = evaluate_question(curves, question, tolerance)
    return replace(found, cut_short=found.cut_short or worst.cut_short)


def _again(known: EngineAnswer, curves: TradeOffPair, question: QuestionSpec, tolerance: float) -> EngineAnswer:
    """Return the answer read anew, or the known one where that is narrower."""
    if curves.worst_case is not None:
        with at_most(remaining_work() / 2):
            narrower(evaluate_question(curves.worst_case, question, tolerance), curves.worst_case, question, tolerance)
    return narrower(known, curves, question, tolerance)
