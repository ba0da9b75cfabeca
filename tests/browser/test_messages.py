"""Messages of the page use words of the form: no field names of the API, no JSON, no instructions to send something."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Any, Final
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import LONGEST_MS, Watched, wait_for_answer

KNOWN: Final = {"make_private", "state_dict", "to_named_tuple", "dp_accounting"}
"""Names of libraries, which the page may mention."""
VOCABULARY: Final = re.compile(r"\b[A-Za-z]+(?:_[a-z]+)+\b|\bJSON\b|\bSend\b|/v1/|\bpointer\b|`")


def vocabulary(text: str) -> set[str]:
    """Return the words in a text that belong to the API and not to the page."""
    return set(VOCABULARY.findall(text)) - KNOWN


RUN: Final[dict[str, dict[str, str]]] = {
    "sizes": {},
    "rate": {"rateBy": "rate", "lengthBy": "steps"},
    "mean": {"sampling": "noisy_sgd", "batch": "400", "dataset": "400", "steps": "1"},
    "release": {"sampling": "gaussian"},
    "epsilon": {"source": "epsilon", "statedEpsilon": "1.2", "statedDelta": "1e-5"},
    "mu": {"source": "epsilon", "statedBy": "mu", "statedMu": "0.5"},
    "rho": {"source": "epsilon", "statedBy": "rho", "statedRho": "0.5"},
    "claim": {"source": "claim", "claim": "1.2"},
}
FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "sizes": ("noise", "batch", "dataset", "epochs", "limit", "delta", "fpr", "kappa", "prior", "dimension",
              "epsilon-pmp", "delta-pmp", "microbatch", "accumulation", "tuning", "records"),
    "rate": ("rate", "steps", "records-in-data"),
    "mean": ("noise-std", "clip", "coordinates", "susceptibility"),
    "release": ("noise",),
    "epsilon": ("stated-epsilon", "stated-delta"),
    "mu": ("stated-mu",),
    "rho": ("stated-rho",),
    "claim": ("claim",),
}  # fmt: skip
WHOLE: Final = {
    "batch", "dataset", "steps", "coordinates", "dimension", "microbatch", "accumulation", "tuning", "records",
    "records-in-data",
}  # fmt: skip
REQUIRED: Final = {
    "noise", "batch", "dataset", "epochs", "rate", "steps", "noise-std", "coordinates", "delta",
}  # fmt: skip
POSITIVE: Final = {"noise", "rate", "epochs", "clip", "limit"} | WHOLE
SHARES: Final = {"delta", "fpr", "kappa", "prior", "rate", "stated-delta", "delta-pmp"}
WRONG: Final[dict[str, tuple[str, str]]] = {
    "comma": ("1,1", "Use a decimal point: 1.1"),
    "letters": ("much", "Write a number in digits"),
    "empty": ("", "Fill this in"),
    "negative": ("-1", "Must be a"),
    "zero": ("0", "Must be a"),
    "too large": ("1e40", "Must be at most"),
    "fraction": ("1.5", "Must be a whole number"),
    "separators": ("60.000", "Write it without separators: 60000"),
    "percent": ("5 %", "0.05"),
}
"""Typed text and words of the message, by kind of mistake."""


def is_wrong(field: str, kind: str) -> bool:
    """Return whether a kind of input is wrong in a field of the form."""
    match kind:
        case "empty":
            return field in REQUIRED
        case "zero":
            return field in POSITIVE - {"limit"}
        case "fraction" | "separators":
            return field in WHOLE
        case "too large":
            return field not in {"limit", "claim"}
        case "percent":
            return field in SHARES
        case _:
            return True


def open_page(page: Page, address: str, state: dict[str, Any]) -> None:
    """Open the page with a state and unfold every section."""
    page.goto("about:blank")
    page.goto(f"{address}/#2:{quote(json.dumps(state))}")
    wait_for_answer(page)
    page.evaluate("document.querySelectorAll('form details').forEach(each => { each.open = true })")


def typed_message(page: Page, field: str, text: str, beside: str = "") -> str:
    """Fill in a text in a field, and return the message at the field or at the field `beside`."""
    page.fill(f"#{field}", text)
    page.evaluate("document.getElementById('form').requestSubmit()")
    page.wait_for_selector("html[data-phase=failed][data-state=settled]", state="attached", timeout=LONGEST_MS)
    sentence = page.locator(f"#{beside or field}-error")
    expect(sentence).to_be_visible()
    expect(page.locator(f"#{beside or field}")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(f"#{field}")).to_have_value(text)
    return sentence.inner_text()


@pytest.mark.parametrize("form", FIELDS)
def test_every_kind_of_wrong_input_has_message(page: Page, watched: Watched, address: str, form: str) -> None:
    watched.expected = ("Failed to load resource",)
    context = {"unit": "user", "records": "2", "epsilonPmp": "0.5"} if form == "sizes" else {}
    open_page(page, address, {"runs": [RUN[form]], "context": context})
    for field in FIELDS[form]:
        right = page.input_value(f"#{field}")
        for kind, (text, words) in WRONG.items():
            if not is_wrong(field, kind):
                continue
            sentence = typed_message(page, field, text)
            assert words in sentence or (kind == "comma" and field in WHOLE), (field, kind, sentence)
            assert vocabulary(page.locator("body").inner_text()) == set(), (field, kind)
        page.fill(f"#{field}", right)


@pytest.mark.parametrize(
    ("state", "field", "text", "words"),
    [
        ({}, "batch", "50000", "cannot have more records than the data"),
        ({"context": {"unit": "user", "records": "1"}}, "records", "50000", "cannot have more records than the data"),
        ({"context": {"unit": "user", "records": "1"}}, "records", "100", "At most 64 records"),
        ({}, "delta-pmp", "0.1", "or neither"),
        ({}, "date", "tomorrow", "year, month, day"),
        ({}, "date", "2999-01-01", "not in the future"),
        ({}, "version", "2", "needs a name"),
        ({}, "subject", "x" * 201, "1 to 200 characters"),
        ({}, "prepared-by", "x" * 201, "1 to 200 characters"),
        ({"runs": [{"rateBy": "rate", "lengthBy": "steps"}, {"name": "two"}]}, "name", "two", "Another run"),
    ],
)
def test_contradictions_between_fields_have_message(
    page: Page, watched: Watched, address: str, state: dict[str, Any], field: str, text: str, words: str
) -> None:
    watched.expected = ("Failed to load resource",)
    open_page(page, address, {"runs": [{}], **state})
    if field == "name":  # The run itself has an answer; the comparison has none.
        page.fill("#name", text)
        page.press("#name", "Enter")
        wait_for_answer(page)
        sentence = page.locator("#comparison").inner_text()
    else:
        sentence = typed_message(page, field, text, beside="subject" if field == "version" else "")
    assert words in sentence
    assert vocabulary(page.locator("body").inner_text()) == set()


def test_sampler_that_needs_both_sizes_says_so(page: Page, watched: Watched, address: str) -> None:
    watched.expected = ("Failed to load resource",)
    open_page(page, address, {"runs": [{"rateBy": "rate", "sampling": "fixed_with_replacement"}]})
    assert "need both sizes" in page.locator("#rate-by-error").inner_text()


@pytest.mark.parametrize(("kind", "typed"), [("trade_off", "5"), ("reconstruction", "5"), ("trade_off", "5 %")])
def test_percentage_as_limit_is_questioned(page: Page, watched: Watched, kind: str, typed: str) -> None:
    watched.expected = ("Failed to load resource",)
    page.select_option("#limit-kind", kind)
    assert "0.05" in typed_message(page, "limit", typed)
    assert vocabulary(page.locator("body").inner_text()) == set()
    page.get_by_role("button", name="Use 0.05").click()
    wait_for_answer(page)
    expect(page.locator("#limit")).to_have_value("0.05")
    expect(page.locator("#short .verdict.good")).to_be_visible()


@pytest.mark.parametrize(("kind", "typed"), [("trade_off", "1"), ("reconstruction", "1"), ("reconstruction", "0.0001")])
def test_limit_that_no_run_can_break_is_rejected_at_its_field(
    page: Page, watched: Watched, kind: str, typed: str
) -> None:
    watched.expected = ("Failed to load resource",)
    page.select_option("#limit-kind", kind)
    assert "No run can" in typed_message(page, "limit", typed)


def test_suggested_correction_is_filled_in(page: Page, watched: Watched) -> None:
    watched.expected = ("Failed to load resource",)
    typed_message(page, "noise", "1,1")
    page.get_by_role("button", name="Use 1.1").click()
    wait_for_answer(page)
    expect(page.locator("#noise")).to_have_value("1.1")
    expect(page.locator(".error")).to_have_count(0)


CONTEXTS: Final = {
    "microbatch": ("", "1", "4"),
    "accumulation": ("", "2"),
    "tuning": ("", "3"),
    "unit": ("example", "user"),
    "dimension": ("", "100"),
    "epsilonPmp": ("", "0.4"),
    "delta": ("1e-5", "0.01"),
    "released": ("all_checkpoints", "last_model"),
}
SAMPLERS: Final = ("poisson", "fixed_without_replacement", "fixed_with_replacement", "noisy_sgd", "gaussian", "laplace")


def forms() -> list[dict[str, Any]]:
    """Yield states of the form, drawn from all of its options."""
    draw = random.Random(28)
    runs = [{"sampling": each, "noise": "2"} for each in SAMPLERS] + [RUN["epsilon"], RUN["mu"], RUN["claim"]]
    states = ("yes", "no")
    return [
        {
            "runs": [run],
            "context": {name: draw.choice(values) for name, values in CONTEXTS.items()},
            "limit": {
                "kind": draw.choice(["epsilon", "trade_off"]),
                "value": "0.5",
                "requires": draw.choice(["", "all"]),
            },
            "attested": {"sampling_is_poisson": {"holds": draw.choice(states)}} if draw.random() < 0.4 else {},
        }
        for run, _ in itertools.product(runs, range(2))
    ]  # fmt: skip


def test_answers_contain_no_api_vocabulary(page: Page, watched: Watched, address: str) -> None:
    watched.expected = ("Failed to load resource",)
    for state in forms():
        open_page(page, address, state)
        page.evaluate("document.querySelectorAll('aside details').forEach(each => { each.open = true })")
        phase = page.evaluate("document.documentElement.dataset.phase")
        shown = "\n".join(page.locator(f"#{part}").inner_text() for part in ("strip", "answer", "problem", "form"))
        shown += "\n".join(page.locator("aside").all_inner_texts()) + "\n".join(
            page.locator(".beside").all_inner_texts()
        )
        assert vocabulary(shown) == set(), (phase, state)
