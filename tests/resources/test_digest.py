"""Digests: the canonical form is that of RFC 8785, and equal requests have equal digests."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from api_schemas.bounds import BoundsRequest
from service.resources.digest import canonical_bytes, canonical_text, digest

REQUEST = TypeAdapter(BoundsRequest)
LARGEST_INTEGER = 2**53 - 1

SCALARS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.text()
    | st.booleans()
    | st.none()
)
KEYS = st.text()
PLAIN_DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # Recursive data are slow to draw on a busy machine.
@given(PLAIN_DATA)
def test_canonical_form_is_rfc_8785(value: Any) -> None:
    assert canonical_text(value).encode() == rfc8785.dumps(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_written_as_in_rfc_8785(value: float) -> None:
    assert canonical_text(value).encode() == rfc8785.dumps(value)


# RFC 8785, appendix B: numbers by their IEEE 754 bits, and their canonical form.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_numbers_match_appendix_b_of_rfc_8785(bits: str, text: str) -> None:
    assert canonical_text(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_value_without_canonical_form_is_rejected(value: Any) -> None:
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_text(value)


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**63 - 1])
def test_integers_beyond_doubles_are_strings(value: int) -> None:
    """Integers outside the range that doubles represent exactly are strings in a digest (RFC 8785, appendix D)."""
    assert canonical_text(value).encode() == rfc8785.dumps(str(value))


def request(text: str) -> BoundsRequest:
    return REQUEST.validate_json(text)


OURS = """{"mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
           "questions": [{"type": "epsilon", "delta": 1e-5}, {"type": "attack_accuracy", "prior": 0.5}]}"""


def test_digest_is_sha_256_of_documented_form() -> None:
    material = {
        "resource": "bounds",
        "engine_version": "2026.01.01",
        "request": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
            "threat_model": {"type": "worst_case", "neighboring_relation": "add_or_remove_one"},
            "questions": [
                {"type": "epsilon", "delta": 1e-5, "direction": "both"},
                {"type": "attack_accuracy", "prior": 0.5, "direction": "add"},
            ],
            "method": "auto",
            "relative_tolerance": 1e-6,
        },
    }
    assert canonical_bytes("bounds", "2026.01.01", request(OURS)) == rfc8785.dumps(material)
    assert digest("bounds", "2026.01.01", request(OURS)) == (
        "sha256:" + hashlib.sha256(rfc8785.dumps(material)).hexdigest()
    )


EVERY_FIELD = """{"mechanism": {"type": "composed", "events": [
    {"type": "repeated", "steps": 3, "mechanism": {"type": "poisson_sampled", "q": 1e-7, "event": {"type": "laplace",
     "noise_multiplier": 1e15}}}, {"type": "gdp", "mu": 0},
    {"type": "approximate_dp", "epsilon": 1e6, "delta": 5e-324}]},
   "threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"}, "relative_tolerance": 1e-6,
   "questions": [{"type": "trade_off", "fpr": [0, 1, 1e-300, 0.1, 9.5e-5]}, {"type": "gdp_mu"}, {"type": "advantage"},
     {"type": "reconstruction", "candidates": 7}, {"type": "reconstruction", "prior_probabilities": [0.25, 0.75]},
     {"type": "attack_accuracy", "prior": 0.5, "false_positive_rate": null},
     {"type": "negative_predictive_value", "prior": 1e-6, "side": "at_least", "false_positive_rate": 1e-5}]}"""


@pytest.mark.parametrize("sent", [OURS, EVERY_FIELD])
def test_models_have_canonical_form_of_their_dump(sent: str) -> None:
    plain = json.loads(request(sent).model_dump_json())
    assert canonical_text(request(sent)).encode() == rfc8785.dumps(plain)


@pytest.mark.parametrize(
    "same",
    [
        OURS.replace("noise_multiplier", "sigma").replace("sample_rate", "q").replace("steps", "num_steps"),
        OURS.replace("1e-5", "0.00001").replace(": 1.0", ": 1").replace("0.01", "1e-2"),
        OURS.replace('"prior": 0.5', '"prior": 0.5, "false_positive_rate": null, "direction": "add"'),
        json.dumps(dict(reversed(json.loads(OURS).items())) | {"method": "auto", "rtol": 1e-6}),
        OURS.replace('"questions"', '"order": null, "samples": null, "questions"'),
    ],
)
def test_equal_requests_have_one_digest(same: str) -> None:
    assert digest("bounds", "v", request(same)) == digest("bounds", "v", request(OURS))


@pytest.mark.parametrize(
    "other",
    [
        OURS.replace("1e-5", "1.0000000000000002e-5"),
        OURS.replace("1000", "1001"),
        OURS.replace('"prior": 0.5', '"prior": 0.5, "false_positive_rate": 0'),
        OURS.replace('"prior": 0.5', '"prior": 0.5, "direction": "both"'),
        OURS.replace('"questions"', '"relative_tolerance": 1e-8, "questions"'),
        OURS.replace('"questions"', '"method": "contour", "questions"'),
    ],
)
def test_different_requests_have_different_digests(other: str) -> None:
    assert digest("bounds", "v", request(other)) != digest("bounds", "v", request(OURS))


EVERY_OPTION = {"order": 4, "samples": 100_000, "seed": 0, "confidence": 0.999, "digits": 25}


@pytest.mark.parametrize(
    ("method", "filled_in", "different"),
    [
        ("edgeworth", ["order"], {"order": 3}),
        ("monte_carlo", ["samples", "seed", "confidence"], {"seed": 2**63 - 1}),
        ("monte_carlo", ["samples", "seed", "confidence"], {"seed": 2**63 - 2}),
        ("ground_truth", ["digits"], {"digits": 26}),
        ("all", ["order", "samples", "seed", "confidence"], {"digits": 25}),
    ],
)
def test_absent_option_equals_its_default(method: str, filled_in: list[str], different: dict[str, Any]) -> None:
    def name(**options: Any) -> str:
        return digest("bounds", "v", request(json.dumps(json.loads(OURS) | {"method": method} | options)))

    assert name() == name(**{option: EVERY_OPTION[option] for option in filled_in})
    assert name() != name(**different)


def test_digest_covers_engine_version_and_resource() -> None:
    assert digest("bounds", "v", request(OURS)) != digest("bounds", "w", request(OURS))
    assert digest("bounds", "v", request(OURS)) != digest("curves", "v", request(OURS))
