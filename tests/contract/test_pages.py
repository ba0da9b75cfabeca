"""Statements of README.md and the guide are true: numbers in sentences are computed numbers, tables are complete."""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from api_schemas.assumptions_and_hazards import AssumptionCode
from api_schemas.fields import shape_of, shape_of_field, type_of
from api_schemas.mechanisms import MechanismSpec
from api_schemas.membership_conversions import MembershipConversion
from api_schemas.questions import QuestionSpec
from api_schemas.threat_models import ThreatModelSpec
from api_schemas.training_runs import DpsgdMechanism
from service.privacy.composition.planning.choose import METHODS
from service.problems import ERROR_PROBLEMS, HTTP_PROBLEMS, INTERNAL_ERROR, INVALID_PARAMETER, SERVER_PROBLEMS
from service.rendering.registry import renderings_of
from service.resources.catalogue import RESOURCES
from service.settings import Settings
from service.telemetry.metrics import Metrics
from tests.contract.pages import PAGES, ROOT, calls, objects_of_tables, page, section
from tests.privacy.shuffled_script import script_delta

DP_SGD = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def tags(union: object) -> set[str]:
    """Return the values of `type` in a union of the contract."""
    return {type_of(model) for model in shape_of(union).models}


def table_objects(kind: str) -> list[dict[str, Any]]:
    """List the JSON objects of one kind in the table cells of `docs/guide/requests.md`.

    `kind` is "question", "mechanism" or "conversion".
    """
    known = {"question": tags(QuestionSpec), "mechanism": tags(MechanismSpec), "conversion": tags(MembershipConversion)}
    return [value for value in objects_of_tables("docs/guide/requests.md") if value.get("type") in known[kind]]


def first_column(heading: str, name: str) -> set[str]:
    """Return the code spans in the first column of a section's table."""
    return set(re.findall(r"(?m)^\| `([^`]+)` \|", section(heading, name)))


def test_samplers_table_matches_service(client: TestClient) -> None:
    text = page("samplers")
    rows = re.findall(r"(?m)^\| `(\w+)` \| .* \(`(\w+)`\) \| (?:between ([\d.]+) and )?([\d.]+)(?:, tight)? \|$", text)
    run = json.loads(re.findall(r"```json\n(.*?)```", text, re.DOTALL)[0])
    assert [row[0] for row in rows] == list(shape_of_field(DpsgdMechanism.model_fields["sampling"]).choices)
    for sampling, relation, lower, upper in rows:
        answer = epsilon_of(client, run | {"sampling": sampling})
        assert answer["threat_model"]["neighboring_relation"] == relation
        [found] = answer["answers"]
        assert found["tight"] is not bool(lower)
        assert_rounded(upper, found["upper"], "upper")
        if lower:
            assert_rounded(lower, found["lower"], "lower")


def epsilon_of(client: TestClient, mechanism: dict[str, Any]) -> dict[str, Any]:
    sent = {"mechanism": mechanism, "questions": [{"type": "epsilon", "delta": 1e-5}], "relative_tolerance": 1e-4}
    answer = client.post("/v1/bounds", json=sent)
    assert answer.status_code == 200
    return cast("dict[str, Any]", answer.json())


def test_audit_example_is_above_the_bound(client: TestClient) -> None:
    [(route, sent), *_] = requests_of("audits")
    answer = client.post(route, content=sent, headers={"content-type": "application/json"})
    assert answer.json()["bound"]["verdict"] == "above_the_bound"


def test_assessment_example_has_stated_verdicts(client: TestClient) -> None:
    _, (route, sent), *_ = requests_of("assessments")
    decided = client.post(route, content=sent, headers={"content-type": "application/json"}).json()
    assert decided["verdict"] == "met_if_attested"
    assert [each["verdict"] for each in decided["decision"]["rulings"]] == ["met", "violated"]


def requests_of(name: str) -> list[tuple[str, bytes]]:
    """List the routes and bodies of the curl commands of a page."""
    return [(call.path, call.body.encode()) for call in calls(page(name))]


def assert_rounded(printed: str, number: float | None, end: str) -> None:
    """Check a rounded number: an upper bound is rounded up, a lower bound down, `nearest` to either side."""
    if number is None:
        assert printed == "null"
        return
    unit = 10.0 ** -len(printed.partition(".")[2])
    below, above = {"lower": (1, 1e-9), "upper": (1e-9, 1), "nearest": (0.5, 0.5)}[end]
    assert -below * unit <= float(printed) - number <= above * unit, (printed, number)


def test_table_of_engines_matches_service(client: TestClient) -> None:
    table = re.findall(
        r"(?m)^\| `(\w+)` \| ([\d.]+) \| ([\d.]+|null) \| ([\d.]+|null) \| `(\w+)` \|$",
        page("requests"),
    )
    [sent] = [body for _, body in requests_of("requests") if b'"method": "all"' in body]
    answer = client.post("/v1/bounds", content=sent, headers={"content-type": "application/json"}).json()
    entries = answer["answers"][0]["methods"]
    assert [(row[0], row[4]) for row in table] == [(entry["method"], entry["evidence"]) for entry in entries]
    for (_, value, lower, upper, _), entry in zip(table, entries, strict=True):
        assert_rounded(value, entry["value"], "nearest" if entry["upper"] is None else "upper")
        assert_rounded(lower, entry["lower"], "lower")
        assert_rounded(upper, entry["upper"], "upper")


def test_table_of_relaxed_adversaries_matches_service(client: TestClient) -> None:
    table = re.findall(r"(?m)^\| `(membership|glrt)`: .*? \| ([\d.]+) \| ([\d.]+) \|$", page("requests"))
    found: list[tuple[str, float, float]] = []
    for _, sent in requests_of("requests"):
        if b'"type": "membership"' in sent or b'"type": "glrt"' in sent:
            answer = client.post("/v1/bounds", content=sent, headers={"content-type": "application/json"}).json()
            numbers = [
                [entry["points"][0]["power"]["value"] if "points" in entry else entry["value"] for entry in answers]
                for answers in (answer["answers"], answer["worst_case"]["answers"])
            ]
            found += [(answer["threat_model"]["type"], *pair) for pair in zip(*numbers, strict=True)]
    assert [row[0] for row in table] == [row[0] for row in found]
    for (_, *printed), (_, *numbers) in zip(table, found, strict=True):
        for text, number in zip(printed, numbers, strict=True):
            assert_rounded(text, number, "upper")


def test_guide_names_every_engine() -> None:
    forgotten = [method for method in METHODS if f"`{method}`" not in page("answers")]
    assert forgotten == [], "edit `method` of a request in docs/guide/answers.md"


def test_claims_and_comparisons_examples_match_service(client: TestClient) -> None:
    [(route, sent)] = requests_of("claims")
    [claim] = client.post(route, content=sent, headers={"content-type": "application/json"}).json()["claims"]
    ratio, power = re.findall(r"`ratio` of at least (\d+)|power of ([\d.]+)\s+at", page("claims"))
    assert claim["verdict"] == "unsafe"
    assert int(ratio[0]) == math.floor(claim["by"]["ratio"])
    assert_rounded(power[1], claim["attack"]["power"]["value"], "lower")


def test_calibration_example_matches_service(client: TestClient) -> None:
    [(route, sent)] = requests_of("calibrations")
    answer = client.post(route, content=sent, headers={"content-type": "application/json"}).json()
    printed = re.search(r"`value`, ([\d.]+), .*?`witness` at\s+([\d.]+),", page("calibrations"), re.DOTALL)
    assert printed
    assert_rounded(printed[1], answer["value"], "upper")
    assert_rounded(printed[2], answer["witness"]["value"], "nearest")
    assert answer["monotone"]["proved"]


def test_every_calibration_in_table_is_met(client: TestClient) -> None:
    rows = re.findall(r"(?m)^\| .* \| `(\".*?\")` \| `(\{.*\})` \|$", page("calibrations"))
    assert len(rows) == 5
    for free, target in rows:
        body = {"mechanism": DP_SGD, "free": json.loads(free), "targets": [json.loads(target)]}
        answer = client.post("/v1/calibrations", json=body | {"relative_tolerance": 1e-3}).json()
        assert (answer["status"], answer["no_witness"]) == ("met", None)
    steps = {"mechanism": DP_SGD, "free": "/mechanism/steps", "targets": [json.loads(row[1]) for row in rows[:2]]}
    answer = client.post("/v1/calibrations", json=steps).json()
    words = " ".join(page("calibrations").split())
    assert f"{answer['value']} steps are met and {answer['witness']['value']} are not" in words


def test_conversions_in_table_match_service(client: TestClient) -> None:
    response = client.post("/v1/conversions/membership", json={"conversions": table_objects("conversion")})
    assert response.status_code == 200, response.text
    rows = re.findall(
        r"(?m)`\{.*\}` \| ([\d.]+)(?:, and [\d.]+)? \|$", section("From a promise to epsilon", "requests")
    )
    for text, answer in zip(rows, response.json()["answers"], strict=True):
        assert_rounded(text, answer["value"], "lower")


def test_table_of_conversions_is_complete() -> None:
    listed = {conversion["type"] for conversion in table_objects("conversion")}
    assert listed == tags(MembershipConversion), "edit the table of conversions in docs/guide/requests.md"


def test_tables_of_questions_and_mechanisms_are_complete() -> None:
    for kind, union in (("question", QuestionSpec), ("mechanism", MechanismSpec)):
        listed = {each["type"] for each in table_objects(kind)}
        assert listed == tags(union), f"edit the table of {kind}s in docs/guide/requests.md"


def test_section_of_attackers_is_complete() -> None:
    named = set(re.findall(r'`\{"type": "(\w+)"', section("Attackers", "requests")))
    assert named == tags(ThreatModelSpec), "edit the section Attackers in docs/guide/requests.md"


def test_table_of_settings_is_complete() -> None:
    assert first_column("Settings", "operating") == {f"PRIVACY_BOUNDS_{name.upper()}" for name in Settings.model_fields}


def test_table_of_job_diagnoses_is_complete() -> None:
    diagnosis = (ROOT / "service/jobs/diagnosis.py").read_text("utf-8")
    cells = re.findall(r"(?m)^\| (`.*?) \|", section("Why does a job not move?", "operating"))
    named = [part.strip() for cell in cells for code in re.findall(r"`(.*?)`", cell) for part in code.split("...")]
    reasons = [part.removesuffix(":") for part in named if part not in ("", "why")]
    assert len(reasons) >= 12
    assert [reason for reason in reasons if reason not in diagnosis] == []


def test_both_mus_of_a_run_match_the_page(client: TestClient) -> None:
    answer = client.post("/v1/bounds", json={"mechanism": DP_SGD, "questions": [{"type": "gdp_mu"}]}).json()
    [found] = answer["answers"]
    text = " ".join(page("requests").split())
    assert f"is {found['value']:.2f}-GDP for error rates of {found['question']['false_positive_rate_min']:.0e}" in (
        text.replace("1e-9", "1e-09")
    )
    assert f"its mu is {found['global_mu']['value']:.1f}:" in text


def test_tables_of_assumptions_are_complete() -> None:
    rows = re.findall(r"(?m)^\| (.*) \|$", section("Who attests what", "assessments"))
    named = {code for row in rows for code in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row)}
    codes = set(shape_of(AssumptionCode).choices)
    assert codes <= named, "edit the tables of assumptions in docs/guide/assessments.md"
    opening = {code for row in rows for code in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    assert opening <= codes


def test_table_of_metrics_is_complete() -> None:
    metrics = Metrics(CollectorRegistry(), engine_version="any")
    families = text_string_to_metric_families(metrics.exposition().decode())
    names = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    ours = {name for name in names if not name.startswith("process_") and not name.endswith("_created")}
    assert ours == first_column("Metrics", "operating") - {"process_*"}


def test_table_of_problems_is_complete() -> None:
    kinds = {
        *ERROR_PROBLEMS.values(),
        *HTTP_PROBLEMS.values(),
        *SERVER_PROBLEMS.values(),
        INVALID_PARAMETER,
        INTERNAL_ERROR,
    }
    rows = re.findall(r"(?m)^\| (`/problems/.*?) \| ([0-9, ]+) \|", section("Problems", "reference"))
    listed = [
        pair
        for types, statuses in rows
        for pair in zip(re.findall(r"`(.*?)`", types), map(int, statuses.split(",")), strict=True)
    ]
    assert sorted(listed) == sorted({(kind.type, kind.status) for kind in kinds})


def test_tables_of_routes_and_headers_are_complete(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    routes, headers = section("Routes", "reference"), section("Headers", "reference")
    assert [path for path in document["paths"] if f"{path}`" not in routes] == []
    sent = {
        name
        for operations in document["paths"].values()
        for operation in operations.values()
        if "responses" in operation
        for response in operation["responses"].values()
        for name in response.get("headers", {})
    }
    assert len(sent) > 5
    assert sorted(name for name in sent if f"`{name.lower()}`" not in headers.lower()) == []


def test_table_of_media_types_is_complete() -> None:
    rows = re.findall(r"(?m)^\| (`.*?`) \| ([\w, ]+) \| .* \|$", section("Media types", "reference"))
    listed = {
        (form, name) for forms, names in rows for form in re.findall(r"`(.*?)`", forms) for name in names.split(", ")
    }
    assert listed == {(form, name) for name in RESOURCES for form in renderings_of(name)}


def test_practical_membership_privacy_numbers_match_service(client: TestClient) -> None:
    exponential, finite, gaussian, simulated = (
        client.post(route, content=body, headers={"content-type": "application/json"}).json()
        for route, body in requests_of("pmp")
    )
    text = page("pmp")
    [private, everywhere, mean] = re.findall(
        r"`epsilon_pmp` ([\d.]+), where|epsilon is at most ([\d.]+)\.$|`epsilon_pmp` is ([\d.]+) here",
        text,
        re.MULTILINE,
    )
    assert_rounded(private[0], exponential["epsilon_pmp"]["value"], "upper")
    assert_rounded(everywhere[1], exponential["worst_case"]["epsilon"]["value"], "upper")
    assert_rounded(mean[2], simulated["summary"]["epsilon_pmp"]["mean"], "nearest")
    assert f"than {exponential['epsilon_on_population']['exact']['value']:.2f}." in text
    assert f"`delta_pmp` {finite['delta_pmp']['value']:.1f}" in text
    lower, upper = (10_000 * gaussian["epsilon_pmp"][end] for end in ("lower", "upper"))
    assert f"in [{math.floor(lower) / 10_000}, {math.ceil(upper) / 10_000}]" in text


def test_numbers_for_epsilon_delta_pair_match_service(client: TestClient) -> None:
    [(route, sent), (other, promises)] = requests_of("epsilon")
    answers = client.post(route, content=sent, headers={"content-type": "application/json"}).json()["answers"]
    power, gamma, trusted, right = (
        answer["points"][0]["power"]["value"] if "points" in answer else answer["value"] for answer in answers
    )
    printed = re.findall(r"(?m)^\| .*\? \| ([\d.]+) \|$", page("epsilon"))
    kept, _ = client.post(other, content=promises, headers={"content-type": "application/json"}).json()["answers"]
    for text, number in zip(printed, (power, gamma, right, trusted, kept["value"]), strict=True):
        assert_rounded(text, number, "nearest")


def bound_request(mechanism: dict[str, Any], question: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a request with one question."""
    return {"mechanism": mechanism, "questions": [question], **more}


EPSILON = {"type": "epsilon", "delta": 1e-5}
POWER = {"type": "trade_off", "false_positive_rates": [0.001]}
TUNED = {"type": "selected", "mechanism": DP_SGD, "trials": {"type": "geometric", "mean": 10}}
REPORTS = {"type": "shuffled_reports", "reports": 10_000, "randomizer": {"type": "pure_dp", "epsilon": 1.0}}
PURE = {"type": "pure_dp", "epsilon": 1.0}
SAFE_NUMBERS: list[tuple[str, str, str, float, dict[str, Any]]] = [
    ("rho", r"at most ([\d.]+) % of the members\.", "upper", 100, bound_request({"type": "zcdp", "rho": 0.5}, POWER)),
    ("rho", r"for μ = ([\d.]+),", "upper", 1, bound_request({"type": "zcdp", "rho": 0.5}, {"type": "gdp_mu"})),
    (
        "rho",
        r"the power is at most ([\d.]+)\. By",
        "upper",
        1,
        bound_request({"type": "zcdp", "rho": 0.1}, POWER, threat_model={"type": "worst_case", "records": 4}),
    ),
    ("tuning", r"an ε between ([\d.]+) and", "lower", 1, bound_request(TUNED, EPSILON)),
    ("tuning", r"an ε between [\d.]+ and ([\d.]+)\.", "upper", 1, bound_request(TUNED, EPSILON)),
    ("shuffled", r"lies between ([\d.]+) and", "lower", 1, bound_request(REPORTS, EPSILON | {"delta": 1e-6})),
    ("shuffled", r"lies between [\d.]+ and ([\d.]+),", "upper", 1, bound_request(REPORTS, EPSILON | {"delta": 1e-6})),
    (
        "shuffled",
        r"independent reports give at most ([\d.]+)\.",
        "upper",
        1,
        bound_request(REPORTS | {"reports": 2}, {"type": "delta", "epsilon": 0.3}),
    ),
    (
        "epsilon",
        r"with a chance of at most ([\d.]+)\.",
        "upper",
        1,
        bound_request(
            {"type": "approximate_dp", "epsilon": 2.0, "delta": 1e-5},
            {"type": "positive_predictive_value", "prior": 0.01, "false_positive_rate": 0.001},
        ),
    ),
    (
        "paper-membership",
        r"\| ([\d.]+): an accusation",
        "upper",
        1,
        bound_request(PURE, {"type": "positive_predictive_value", "prior": 0.01}),
    ),
    (
        "paper-membership",
        r"\| ([\d.]+): twice what",
        "upper",
        1,
        bound_request(PURE, {"type": "advantage_over_prior", "prior": 0.01}),
    ),
    ("paper-membership", r"\| ([\d.]+): how far", "upper", 1, bound_request(PURE, {"type": "advantage"})),
]
"""Page, pattern of a printed number, its bound, its unit in the answer, and the request."""


@pytest.mark.parametrize(("name", "pattern", "end", "unit", "sent"), SAFE_NUMBERS)
def test_number_in_sentence_is_rounded_to_the_safe_side(
    name: str, pattern: str, end: str, unit: float, sent: dict[str, Any], client: TestClient
) -> None:
    """A promise that is rounded down, or a lower bound that is rounded up, is false in its last digit."""
    [printed] = re.findall(pattern, " ".join(page(name).split()))
    [answer] = client.post("/v1/bounds", json=sent).json()["answers"]
    numbers = answer["points"][0]["power"] if "points" in answer else answer
    assert_rounded(printed, unit * numbers[end], end)


@pytest.mark.parametrize(
    ("name", "index", "pattern", "end"),
    [
        ("quickstart", 1, r"of the answer is ([\d.]+), rounded", "upper"),
        ("tuning", 1, r"The `value` is ([\d.]+), rounded", "lower"),
        ("calibrations", 0, r"The `value`, ([\d.]+), is", "upper"),
    ],
)
def test_calibrated_number_in_sentence_keeps_the_limit(
    name: str, index: int, pattern: str, end: str, client: TestClient
) -> None:
    [printed] = re.findall(pattern, " ".join(page(name).split()))
    route, sent = requests_of(name)[index]
    value = client.post(route, content=sent, headers={"content-type": "application/json"}).json()["value"]
    assert_rounded(printed, value, end)


def test_script_is_below_the_truth_for_many_reports(client: TestClient) -> None:
    pattern = (
        r"With (\d+) persons, (\d+) values and ε = (\d), delta at epsilon ([\d.]+) is (\S+) by the script\. "
        r"The truth is at least (\S+):"
    )
    [(reports, options, local, at, printed, truth)] = re.findall(pattern, " ".join(page("shuffled").split()))
    response = {"type": "randomized_response", "epsilon": float(local), "options": int(options)}
    run = {"type": "shuffled_reports", "reports": int(reports), "randomizer": response}
    sent = bound_request(run, {"type": "delta", "epsilon": float(at)})
    [answer] = client.post("/v1/bounds", json=sent).json()["answers"]
    script = script_delta(int(reports), int(options), float(local), float(at))
    assert float(printed) == pytest.approx(script, rel=5e-5)
    assert script < float(truth) <= answer["lower"] == pytest.approx(float(truth), rel=1e-4)


def test_python_example_does_what_its_comments_say() -> None:
    blocks = re.findall(r"```python\n(.*?)```", page("clients"), re.DOTALL)
    held: dict[str, Any] = {}
    for code in blocks:
        if "http://" not in re.sub(r"#.*", "", code):
            exec(code, held)
    assert held["epsilon"].lower <= held["epsilon"].value == held["epsilon"].upper
    assert held["paragraph"].startswith("## Privacy")
    assert held["ask"].epsilon([(held["noise"], 0.004, 4000)], delta=1e-5).value <= 1
    assert held["side_by_side"].quantities[0].best == ("now",)
    assert held["verdicts"][0].verdict == "loose"
    assert held["columns"]["power"] == list(held["power"].value)


def test_readme_is_short_and_links_every_page() -> None:
    readme = page("README")
    assert readme.count("\n") <= 150
    linked = set(re.findall(r"\]\((docs/guide/[\w-]+\.md)\)", readme))
    guide = (ROOT / "docs" / "guide.yml").read_text("utf-8")
    pages = {name.removeprefix("docs/guide/") for name in PAGES if name != "README.md"}
    assert linked <= set(PAGES)
    assert pages == set(re.findall(r": ([\w-]+\.md)$", guide, re.MULTILINE)), "docs/guide.yml lists every page"
    assert "docs/guide/index.md" not in linked


def test_make_commands_of_pages_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for name in re.findall(r"(?m)^make (\w+)", "".join(PAGES.values())):
        assert re.search(rf"(?m)^{name}:", makefile), name
