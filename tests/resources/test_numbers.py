"""Enclosures in JSON: conservative value, logarithms of numbers below the doubles, widths."""

from __future__ import annotations

import math
from typing import Literal

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.privacy.enclosure import DecimalEnclosure, Enclosure, EnclosureArray, Evidence
from service.resources.numbers import enclosed_column, enclosed_number, enclosed_numbers, narrow

EXACT = Evidence.EXACT


def test_value_is_conservative_bound() -> None:
    enclosure = Enclosure(0.25, 0.5, EXACT)
    assert enclosed_number(enclosure, "upper") == {"value": 0.5, "lower": 0.25, "upper": 0.5}
    assert enclosed_number(enclosure, "lower") == {"value": 0.25, "lower": 0.25, "upper": 0.5}


@given(st.floats(-1e9, -800), st.floats(0, 1))
def test_logarithms_enclose_the_decimal_logarithm(log_lower: float, width: float) -> None:
    log_upper = log_lower + width
    number = enclosed_number(Enclosure(0.0, 5e-324, EXACT, log_lower, log_upper), "upper")
    assert "lower_log10" in number
    assert "upper_log10" in number
    assert "value_log10" in number
    with mpmath.workdps(40):
        assert number["lower_log10"] <= mpmath.mpf(log_lower) / mpmath.log(10)
        assert number["upper_log10"] >= mpmath.mpf(log_upper) / mpmath.log(10)
    assert number["value_log10"] == number["upper_log10"]
    assert math.isclose(number["upper_log10"], log_upper / math.log(10), rel_tol=1e-14)


def test_subnormal_numbers_get_logarithms() -> None:
    number = enclosed_number(Enclosure(1e-300, 2e-300, EXACT), "lower")
    assert "lower_log10" in number
    assert "upper_log10" in number
    assert "value_log10" in number
    assert number["lower_log10"] <= -300 <= number["lower_log10"] + 1e-12
    assert number["upper_log10"] >= math.log10(2) - 300
    assert number["value_log10"] == number["lower_log10"]


@pytest.mark.parametrize(
    "enclosure",
    [
        Enclosure.point(0.0),
        Enclosure(0.0, 0.0, EXACT, -math.inf, -math.inf),
        Enclosure(1e-290, 1e-289, EXACT),
        Enclosure(1e-290, 1e-290, EXACT, math.log(1e-290), math.log(1e-290)),
        Enclosure.point(math.inf),
    ],
)
def test_zero_and_normal_numbers_have_no_logarithms(enclosure: Enclosure) -> None:
    assert set(enclosed_number(enclosure, "upper")) == {"value", "lower", "upper"}


def test_lower_bound_of_zero_has_infinite_logarithm() -> None:
    number = enclosed_number(Enclosure(0.0, 1e-300, EXACT), "upper")
    assert number.get("lower_log10") == -math.inf


def test_arrays_are_written_like_their_elements() -> None:
    lower, upper = np.array([0.0, 0.1, 0.0, 0.0]), np.array([0.0, 0.2, 0.0, 1e-310])
    log_lower = np.array([-np.inf, np.log(0.1), -2000.0, -800.0])
    log_upper = np.array([-np.inf, np.log(0.2), -1999.0, np.log(1e-310)])
    bounds = EnclosureArray(lower, upper, log_lower, log_upper)
    for safe_end in ("lower", "upper"):
        one_by_one = [enclosed_number(bounds.at(index, EXACT), safe_end) for index in range(4)]
        assert enclosed_numbers(bounds, safe_end, EXACT) == one_by_one
    assert "value_log10" in one_by_one[2]


@pytest.mark.parametrize(
    ("lower", "upper", "tolerance", "expected"),
    [
        ([0.0, 1.0], [0.0, 1.0], 1e-16, True),
        ([0.5, 1.0], [0.5 + 1e-8, 1.0], 1e-7, True),
        ([0.5, 1.0], [0.5 + 1e-8, 1.0], 1e-9, False),
        ([0.0], [1e-300], 0.5, False),
        ([1e-300], [1e-300], 1e-16, True),
    ],
)
def test_narrow_compares_width_with_tolerance(
    lower: list[float], upper: list[float], tolerance: float, expected: bool
) -> None:
    assert narrow(EnclosureArray(np.array(lower), np.array(upper)), EXACT, tolerance) is expected


def test_narrow_uses_logarithms_when_bounds_underflow() -> None:
    zeros = np.array([0.0])
    for width, expected in ((1e-12, True), (1e-3, False)):
        bounds = EnclosureArray(zeros, zeros, np.array([-2000.0 - width]), np.array([-2000.0]))
        assert narrow(bounds, EXACT, 1e-6) is expected


def test_approximation_is_written_without_bounds() -> None:
    plain = Enclosure(0.25, 0.25, Evidence.ASYMPTOTIC)
    assert enclosed_number(plain, "upper") == {"value": 0.25, "lower": None, "upper": None}
    small = Enclosure(0.0, 0.0, Evidence.ASYMPTOTIC, -2000.0, -2000.0)
    written = enclosed_number(small, "upper")
    assert set(written) == {"value", "lower", "upper", "value_log10"}
    assert "value_log10" in written
    assert math.isclose(written["value_log10"], -2000 / math.log(10), rel_tol=1e-14)
    bounds = EnclosureArray(
        np.array([0.25, 0.0]), np.array([0.25, 0.0]), np.log([0.25, 1.0]) - [0, 2000], np.log([0.25, 1.0]) - [0, 2000]
    )
    assert enclosed_numbers(bounds, "upper", Evidence.ASYMPTOTIC) == [
        enclosed_number(plain, "upper"),
        enclosed_number(small, "upper"),
    ]
    assert not narrow(bounds, Evidence.ASYMPTOTIC, 1.0)


def test_columns_equal_rows() -> None:
    lower, upper = np.array([0.1, 0.0, 0.3]), np.array([0.2, 1e-310, 0.3])
    bounds = EnclosureArray(lower, upper, np.log([0.1, 1e-320, 0.3]), np.log(upper))
    for evidence in (EXACT, Evidence.ASYMPTOTIC):
        for safe_end in ("lower", "upper"):
            rows = enclosed_numbers(bounds, safe_end, evidence)
            for name, column in enclosed_column(bounds, safe_end, evidence).items():
                assert (column or [None] * 3) == [row.get(name) for row in rows]
    assert set(enclosed_column(EnclosureArray(lower[:1], upper[:1]), "upper", EXACT)) == {"value", "lower", "upper"}


@pytest.mark.parametrize("safe_end", ["lower", "upper"])
def test_digits_beyond_a_double_are_strings(safe_end: Literal["lower", "upper"]) -> None:
    digits = DecimalEnclosure("0.12345678901234567895", "0.1234567890123456789", "0.1234567890123456790", 20)
    written = enclosed_number(Enclosure(0.12, 0.13, Evidence.PROVED, decimal=digits), safe_end)
    assert (written.get("lower_decimal"), written.get("upper_decimal")) == (digits.lower, digits.upper)
    assert written.get("value_decimal") == (digits.lower if safe_end == "lower" else digits.upper)
