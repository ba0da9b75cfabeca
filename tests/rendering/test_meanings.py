"""Meanings of limits: a distinct sentence for every question, side, direction and attacker."""

from __future__ import annotations

import itertools
import json
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from api_schemas.fields import shape_of, type_of
from api_schemas.questions import QuestionSpec
from api_schemas.targets import Limit
from api_schemas.threat_models import ThreatModelSpec
from service.rendering.sentences.attacker import LONGEST_ATTACKER
from service.rendering.sentences.meaning import meaning

FILE = "tests/rendering/test_meanings.py"
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"type": "trade_off", "false_positive_rates": [0.001]},
    {"type": "trade_off", "false_positive_rates": [0.001], "reads": "type_two_error"},
    {"type": "epsilon", "delta": 1e-6},
    {"type": "delta", "epsilon": 1.5},
    {"type": "advantage"},
    {"type": "gdp_mu"},
    {"type": "gdp_mu", "false_positive_rate_min": 0.01},
    {"type": "reconstruction", "baseline_success": 0.001},
    {"type": "reconstruction", "candidates": 1000},
    {"type": "reconstruction", "prior_probabilities": [0.25, 0.75]},
    {"type": "attack_accuracy", "prior": 0.3},
    {"type": "attack_accuracy", "prior": 0.3, "false_positive_rate": 0.001},
    {"type": "positive_predictive_value", "prior": 0.01},
    {"type": "positive_predictive_value", "prior": 0.01, "false_positive_rate": 0.001},
    {"type": "positive_predictive_value", "prior": 0.01, "side": "at_least"},
    {"type": "negative_predictive_value", "prior": 0.01},
    {"type": "negative_predictive_value", "prior": 0.01, "false_positive_rate": 0.001},
    {"type": "negative_predictive_value", "prior": 0.01, "side": "at_least"},
    {"type": "advantage_over_prior", "prior": 0.01},
    {"type": "deletion_capacity", "prior": 0.5, "confidence": 0.25},
    {"type": "unlearning_guarantee", "prior": 0.01, "confidence": 0.9},
)
ATTACKERS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"type": "worst_case"},
    {"type": "worst_case", "neighboring_relation": "replace_one"},
    {"type": "worst_case", "neighboring_relation": "zero_out"},
    {"type": "worst_case", "records": 4},
    {"type": "glrt", "dimension": 30},
    {"type": "glrt", "dimension": 30, "unknown_direction": "fresh_each_step"},
    {"type": "membership"},
    {"type": "membership", "step_curve": "gaussian"},
    {"type": "membership", "composition": "clt"},
    {"type": "membership", "composition": "root_sum_square"},
    {"type": "membership", "population": "chi_square"},
    {"type": "membership", "population": [{"weight": 1.0, "susceptibility": 9.0}]},
    {"type": "practical", "epsilon_pmp": 0.5},
    {
        "type": "mixture",
        "components": [
            {"weight": 0.75, "threat_model": {"type": "worst_case"}},
            {"weight": 0.25, "threat_model": {"type": "glrt", "dimension": 30}},
        ],
    },
)
DIRECTIONS = ("add", "remove", "both")
SENTENCES = {
    "At a false positive rate of 0.1 %, at most 5 % of members are identified.": (0, "at_most", 0.05),
    "At a false positive rate of 0.1 %, at least 5 % of members are identified by the best attack.": (
        0,
        "at_least",
        0.05,
    ),
    "At a false positive rate of 0.1 %, at least 90 % of members are missed.": (1, "at_least", 0.9),
    "At a false positive rate of 0.1 %, at most 90 % of members are missed by the best attack.": (1, "at_most", 0.9),
    "At delta 1e-06, epsilon is at most 4.": (2, "at_most", 4.0),
    "At epsilon 1.5, delta is at most 1e-05.": (3, "at_most", 1e-5),
    "The best attack identifies a share of members at most 1 percentage point above its false positive rate.": (
        4,
        "at_most",
        0.01,
    ),
    "Mu of Gaussian differential privacy is at most 0.5, for attacks that wrongly accuse 1e-7 % or more of the others "
    "and miss 1e-7 % or more of the members.": (5, "at_most", 0.5),
    "A reconstruction with a chance of 0.1 % without the release has with it a chance of at most 1 %.": (
        7,
        "at_most",
        0.01,
    ),
    "A record that is one of 1 000 candidates is reconstructed with a chance of at most 1 %.": (8, "at_most", 0.01),
    "A record whose likeliest value has a prior probability of 75 % is reconstructed with a chance of at most 80 %.": (
        9,
        "at_most",
        0.8,
    ),
    "At a prior of 30 %, at most 75 % of guesses about membership are right.": (10, "at_most", 0.75),
    "At a prior of 1 % and a false positive rate of 0.1 %, at most 10 % of accusations are right.": (
        13,
        "at_most",
        0.1,
    ),
    "At a prior of 1 %, at least 0.5 % of accusations are right, for every attack.": (14, "at_least", 0.005),
    'At a prior of 1 %, at most 99.5 % of answers "not a member" are right.': (15, "at_most", 0.995),
    "At a prior of 1 %, the accusations of the best attack are right at most 5 percentage points more often than the "
    "prior.": (18, "at_most", 0.1),
    "At a prior of 50 % and a confidence of 25 %, at least 1 record can be deleted by doing nothing.": (
        19,
        "at_least",
        1.0,
    ),
    "At a prior of 1 %, a record is not a member with a chance of at least 98 %, for every release.": (
        20,
        "at_least",
        0.98,
    ),
}


def limit(place: int, side: str, number: float, attacker: dict[str, Any] | None = None, **more: Any) -> Limit:
    sent = {**QUESTIONS[place], **more}
    reads = {"reads": sent.pop("reads")} if "reads" in sent else {}
    model = {} if attacker is None else {"threat_model": attacker}
    return Limit.model_validate_json(json.dumps({"question": sent, side: number, **reads, **model}))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_limit_has_expected_sentence(sentence: str) -> None:
    spaced = sentence.replace(" %", "\u00a0%").replace("1 000", "1\u00a0000")
    assert meaning(limit(*SENTENCES[sentence])) == spaced


@pytest.mark.parametrize("place", range(len(QUESTIONS)))
def test_sentence_of_swapped_hypotheses_promises_nothing_to_members(place: int) -> None:
    """With direction `remove`, "member" and "prior" are about records outside the data, and the sentence says so.

    At rate 0.05, Laplace noise of scale 1/3 lets 53 records be deleted by doing nothing at a prior of 0.1 % and a
    confidence of 90 %, as the likelihood ratio of an output is up to 1 + 0.05 (e^3 - 1). With swapped hypotheses it is
    up to 1/(1 - 0.05 (1 - e^-3)), and the number is 100.
    """
    if QUESTIONS[place]["type"] == "advantage":  # the same number in both directions
        return
    number = 1.0 if QUESTIONS[place]["type"] == "deletion_capacity" else 0.5
    sentences = {way: meaning(limit(place, "at_least", number, direction=way)) for way in DIRECTIONS}
    assert {way: "exchange their roles" in text for way, text in sentences.items()} == {
        "add": False,
        "remove": True,
        "both": False,
    }


def test_every_question_and_attacker_is_covered() -> None:
    asked = {each["type"] for each in QUESTIONS}
    assert asked == set(map(type_of, shape_of(QuestionSpec).models)), (
        f"edit service/rendering/sentences/meaning.py, and QUESTIONS in {FILE}"
    )
    attackers = {each["type"] for each in ATTACKERS if each is not None}
    assert attackers == set(map(type_of, shape_of(ThreatModelSpec).models)), (
        f"edit service/rendering/sentences/attacker.py, and ATTACKERS in {FILE}"
    )


def test_different_limits_have_different_meanings() -> None:
    seen: dict[str, Any] = {}
    for place, side, attacker, direction in itertools.product(
        range(len(QUESTIONS)), ("at_most", "at_least"), ATTACKERS, DIRECTIONS
    ):
        if QUESTIONS[place]["type"] == "advantage" and direction != "add":
            continue  # The number is equal in every direction.
        text = meaning(limit(place, side, 0.5, attacker, direction=direction))
        assert text not in seen, (seen.get(text), (place, side, attacker, direction))
        seen[text] = (place, side, attacker, direction)
        assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", text)
        assert "_" not in text.replace("epsilon_pmp", "")
        assert side.replace("_", " ") in text


@pytest.mark.parametrize("seed", range(5))
def test_numbers_in_meanings_keep_all_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for place in range(len(QUESTIONS)):
        number = float(10 ** rng.uniform(-12, 0))
        text = meaning(limit(place, "at_most", number))
        found = {Decimal(each) for each in re.findall(r"\d+(?:\.\d+)?(?:e[+-]\d+)?", text.replace("\u00a0", ""))}
        exact = Decimal(repr(number))
        assert found & {exact, exact * 100, exact * 50}, text


def test_meaning_of_many_attackers_is_short() -> None:
    parts = [{"weight": 1 / 16, "threat_model": {"type": "glrt", "dimension": 10**9 - each}} for each in range(16)]
    text = meaning(limit(0, "at_most", 0.5, {"type": "mixture", "components": parts}))
    assert len(text) <= LONGEST_ATTACKER + 100
    assert "one of 16 attackers" in text
