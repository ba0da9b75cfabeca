"""Numbers change only with a new engine version: the stored requests are computed again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.engine_version import ENGINE_VERSION
from tests.frozen.answers import FILE, Answer, answer, present_platform, read_frozen_answers
from tests.frozen.comparing import contradictions, disagreeing, unlike
from tests.frozen.space import request
from tests.slow_marker import sample_of, thorough

KEPT = read_frozen_answers()
HERE = KEPT.platform == present_platform()
WITH_BOUNDS = 200
BLOCK = 50
EXPENSIVE = 154
"""Number of a request that takes longer than all others whose bounds are stored together."""
BLOCKS = [KEPT.answers[start : start + BLOCK] for start in range(0, len(KEPT.answers), BLOCK)]


def test_stored_answers_have_current_engine_version() -> None:
    advice = "run `python -m tests.frozen meet`, explain what is wider, and then run `python -m tests.frozen write`"
    assert KEPT.engine_version == ENGINE_VERSION, f"{FILE} is of another engine version: {advice}"


@sample_of(2)
@pytest.mark.parametrize(
    "answers",
    [
        *([each for each in block if each.number != EXPENSIVE] for block in BLOCKS[: WITH_BOUNDS // BLOCK]),
        thorough([each for each in KEPT.answers if each.number == EXPENSIVE]),
        *map(thorough, BLOCKS[WITH_BOUNDS // BLOCK :]),
    ],
    ids=lambda answers: f"{answers[0].number}-{answers[-1].number}",
)
def test_numbers_match_stored_answers(answers: Sequence[Answer]) -> None:
    """Current numbers match the stored answers.

    Digests are compared on the processor and libraries that the file names, and bounds up to rounding elsewhere.
    """
    if KEPT.engine_version != ENGINE_VERSION:
        pytest.skip("the file is of another engine version")
    for before in answers:
        problems = _problems(before, answer(before.number))
        assert not problems, f"request {before.number}, {before.resource}, {request(before.number)[1]!r}: {problems}"


def _problems(before: Answer, now: Answer) -> list[str]:
    if not HERE:
        return contradictions(before, now) + disagreeing(before, now) if before.bounds or before.problem else []
    if before.numbers == now.numbers:
        return []
    advice = f"a number moved: service/engine_version.py is to change, and {FILE.name} to be written"
    return [unlike(before, now) or advice, *contradictions(before, now), *disagreeing(before, now)]
