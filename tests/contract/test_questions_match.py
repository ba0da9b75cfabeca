"""Files that a new question has to be added to. Each failing test names the file that was forgotten."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from pydantic import TypeAdapter

from api_schemas.answers import Answer
from api_schemas.claims import RANGES
from api_schemas.fields import shape_of
from api_schemas.questions import NumberQuestion, QuestionSpec
from service.privacy.composition.planning.cost_model import CostModel
from service.resources.estimates import questions_cost
from service.resources.readings import READINGS
from tests.contract.example_values import QUESTIONS

MODEL = CostModel(1.0, 1.0, 1.0)


def question_of(kind: str) -> QuestionSpec:
    adapter: TypeAdapter[QuestionSpec] = TypeAdapter(QuestionSpec)
    return adapter.validate_json(json.dumps(QUESTIONS[kind]))


def test_every_number_question_has_a_reading() -> None:
    missing = "edit READINGS in service/resources/readings.py or NumberQuestion in api_schemas/questions.py"
    assert set(READINGS) == set(shape_of(NumberQuestion).models), missing


@pytest.mark.parametrize("kind", QUESTIONS)
def test_every_question_has_an_answer_type(kind: str) -> None:
    answers = [each.model_fields["type"].annotation for each in get_args(get_args(Answer)[0])]
    assert sum(kind in get_args(types) for types in answers) == 1, (
        "edit api_schemas/answers.py: `type` and `question` of one of the answers"
    )


def test_every_question_has_a_range() -> None:
    assert set(RANGES) == set(QUESTIONS), "edit RANGES in api_schemas/claims.py"


@pytest.mark.parametrize("kind", QUESTIONS)
def test_every_question_has_a_cost(kind: str) -> None:
    try:
        found = questions_cost([question_of(kind)], MODEL)
    except TypeError:
        pytest.fail("edit _question_cost in service/resources/estimates.py")
    assert found > 0
