"""The report: its statements, escaping of client texts, and reproducibility."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from typing_extensions import override

from service.command.in_process import evaluate
from service.parsing import parse_request
from service.rendering.charts.series import ATTACKERS
from service.rendering.numbers import percent_exact, percent_up
from service.rendering.registry import HTML, renderings_of
from service.rendering.report.html import render_report, request_of
from service.resources.catalogue import resource
from service.resources.digest import canonical_text, digest
from tests.rendering.chart_cases import DEAR, HOSTILE, REQUESTS, form, response
from tests.slow_marker import thorough

CASES = tuple(thorough(case) if case == DEAR else case for case in REQUESTS["assessments"])


class Page(HTMLParser):
    """Parser of a page that collects the names of elements, their attributes, and the text."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page.decode())

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "line"):
            self.open.append(tag)

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag not in ("meta", "line"):
            assert self.open.pop() == tag

    @override
    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("case", CASES)
def test_report_has_no_active_or_external_content(case: str) -> None:
    page = Page(form("assessments", case, HTML))
    assert page.open == []
    assert not {"script", "link", "img", "iframe", "object", "form", "a", "image", "use"} & set(page.elements)
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name != "style"  # The policy allows only the style sheet.
        assert not (value or "").startswith(("http", "//", "data:")) or name.startswith("xmlns")
    parts = [value for name, value in page.attributes if name == "id"]
    assert len(set(parts)) == len(parts)


def test_client_texts_stay_plain_text() -> None:
    page = form("assessments", "said_by_people", HTML)
    assert HOSTILE.encode() not in page
    assert Page(page).text.count(HOSTILE) >= 4  # Who attests, the policy, its revision, its rule.


@pytest.mark.parametrize("case", CASES)
def test_request_in_report_has_digest_of_result(case: str) -> None:
    answer: Any = response("assessments", case)
    assert digest("assessments", answer.engine_version, request_of(answer)) == answer.digest
    shown = re.findall(
        r'<pre class="request"><code>(.*?)</code></pre>', form("assessments", case, HTML).decode(), re.DOTALL
    )
    computation = resource("assessments")
    repeated = parse_request(computation.request_type, html.unescape(shown[0]).encode())
    assert digest("assessments", answer.engine_version, repeated) == answer.digest


def test_report_contains_statements_of_the_response() -> None:
    answer: Any = response("assessments", "usual")
    text = " ".join(Page(form("assessments", "usual", HTML)).text.split())
    for part in (
        answer.digest,
        answer.engine_version,
        "No policy was sent",
        "not attested",
        "MEASURE 2.10",
        "ISO/IEC 27559",
        "800-226",
    ):
        assert part in text
    for each in (*answer.assumptions, *answer.hazards):
        assert " ".join(each.text.replace("`", "").split()) in text
    for each in answer.not_applicable:
        assert each.reason.replace("`", "") in text
    power = next(
        each["power"] for each in answer.threat_models[0].answers[2].points if each["false_positive_rate"] == 1e-3
    )
    assert percent_up(power["upper"]) == "0.407\u00a0%"
    assert "at most 0.407 %" in text  # A non-breaking space also separates words for `split`.


@pytest.mark.parametrize("case", CASES)
def test_attackers_have_names_instead_of_codes(case: str) -> None:
    answer: Any = response("assessments", case)
    text = Page(form("assessments", case, HTML)).text
    for part in re.findall(r"By attacker: .*?\.", text):
        assert "worst_case" not in part
    for each in answer.not_applicable if answer.summary.bounded else ():
        assert f"{ATTACKERS[each.threat_model]}Not assessed." in text


def test_report_names_who_attests_each_assumption() -> None:
    mechanism = {"type": "dpsgd", "noise_multiplier": 2.0, "batch_size": 30, "dataset_size": 1000, "epochs": 1}
    attested = [
        {"code": "noise_is_fresh", "holds": "yes"},
        {"code": "sampling_is_poisson", "holds": "yes", "by": "ML"},
    ]
    sent = {"mechanism": mechanism, "context": {"delta": 1e-5, "attested": attested}}
    computation = resource("assessments")
    answer: Any = computation.response_type.model_validate_json(evaluate(computation, json.dumps(sent).encode(), ""))
    text = " ".join(Page(render_report(answer, [], [], [])).text.split())
    unknown = sum(each.holds == "unknown" for each in answer.assumptions)
    assert f"of which {unknown} are not attested." in text
    assert text.count("unknown not attested") == unknown
    assert "yes no name was given" in text
    assert "yes ML" in text
    assert "yes follows from the request" in text


def test_violated_policy_comes_first() -> None:
    text = " ".join(Page(form("assessments", "said_by_people", HTML)).text.split())
    answer: Any = response("assessments", "said_by_people")
    assert text.index(answer.decision.sentence) < text.index(" ".join(answer.summary.sentence.split()))


def test_invalid_svg_is_rejected() -> None:
    answer: Any = response("assessments", "usual")
    chart = [{"name": "roc", "description": "x"}]
    for wrong in (b"<p>", b"<svg ><script>1</script></svg>", b'<svg ><a href="x">1</a></svg>'):
        with pytest.raises(ValueError, match="drawing"):
            render_report(answer, chart, [wrong], [answer.digest])


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.00406844788, "0.407"),
        (0.00407, "0.407"),
        (1.0, "100"),
        (0.0, "0"),
        (0.1, "10.1"),
        (1e-12, "1e-10"),
        (0.5, "50"),
    ],
)
def test_percentages_are_rounded_up(share: float, text: str) -> None:
    """Shares are printed as percentages that are rounded up.

    The double written as 0.1 is slightly larger than 0.1, and the double written as 0.00407 slightly smaller.
    """
    assert percent_up(share) == f"{text}\u00a0%"


def test_sent_percentages_keep_all_digits() -> None:
    assert percent_exact(0.001) == "0.1\u00a0%"
    assert percent_exact(0.00123456789) == "0.123456789\u00a0%"


def test_report_policy_is_strict() -> None:
    headers = renderings_of("assessments")[HTML].headers
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("case", CASES)
def test_saved_report_contains_the_policy(case: str) -> None:
    """A saved report contains its content security policy, which precedes everything it governs.

    It is as strict as the header, but only a header can restrict framing.
    """
    page = form("assessments", case, HTML).decode()
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    header = renderings_of("assessments")[HTML].headers["Content-Security-Policy"]
    assert html.unescape(policy) == header.removesuffix("; frame-ancestors 'none'")
    assert page.index("Content-Security-Policy") < page.index("<style>")
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" in policy


def test_long_request_is_truncated_with_note() -> None:
    steps = [
        {**REQUESTS["curves"]["default"]["mechanism"], "noise_multiplier": 1 + place / 512} for place in range(256)
    ]
    body = {"mechanism": {"type": "composed", "mechanisms": steps * 4}, "context": {"delta": 1e-6}}
    computation = resource("assessments")
    asked = parse_request(
        computation.request_type, json.dumps({**body, "mechanism": {**body["mechanism"], "mechanisms": steps}}).encode()
    )
    answer = computation.response(asked, digest("assessments", "x", asked), "x")
    answer = answer.model_copy(update={"mechanism": asked.mechanism})
    page = render_report(answer, [], [], [answer.digest]).decode()
    length = len(canonical_text(request_of(answer)))
    assert (f"the last {length - 20_000} characters" in page) == (length > 20_000)
