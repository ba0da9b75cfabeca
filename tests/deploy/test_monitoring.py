"""Alert rules and dashboards: every metric and label in them exists, and the rules fire when they should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from service.telemetry.metrics import Metrics

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
RULES = yaml.safe_load((PROMETHEUS / "rules.yml").read_text("utf-8"))
TESTS = "rules_test.yml", "rules_days_test.yml"
DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
GUIDE = (ROOT / "docs/guide/operating.md").read_text("utf-8")
COLUMNS = 24
GIVEN_BY_PROMETHEUS = {"job", "instance", "le"}


def known_metrics() -> dict[str, set[str]]:
    """Return the labels of every series that the service gives, by the name of the series."""
    registry = CollectorRegistry()
    Metrics(registry, "any")
    found = {"up": set[str](), "process_resident_memory_bytes": set[str](), "process_cpu_seconds_total": set[str]()}
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            for name in registry._collector_to_names[collector]:
                found[name] = set(collector._labelnames)
    return found


KNOWN = known_metrics()


def rules(kind: str) -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"] if kind in rule]


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def expressions() -> list[tuple[str, str]]:
    found = [
        (rule.get("alert") or rule["record"], rule["expr"]) for kind in ("alert", "record") for rule in rules(kind)
    ]
    for path in DASHBOARDS:
        for panel in panels(json.loads(path.read_text("utf-8"))):
            found += [(f"{path.stem}: {panel['title']}", target["expr"]) for target in panel["targets"]]
    return found


@pytest.mark.parametrize(("name", "expression"), expressions(), ids=[name for name, _ in expressions()])
def test_metrics_and_labels_exist(name: str, expression: str) -> None:
    recorded = {rule["record"] for rule in rules("record")}
    used = set(re.findall(r"\b(?:privacy_bounds_|process_|privacy_bounds:)[\w:]+|\bup\b", expression))
    assert used, "an expression without a metric"
    assert used - recorded <= set(KNOWN), name
    labels = set[str]().union(*(KNOWN.get(each, set()) for each in used)) | GIVEN_BY_PROMETHEUS
    # Strings may hold braces and names, so they go first.
    bare = re.sub(r'"[^"]*"', '""', expression)
    selected = {label for inside in re.findall(r"\{([^}]*)\}", bare) for label in re.findall(r"(\w+)\s*[=!]", inside)}
    grouped = {label for inside in re.findall(r"\bby \(([^)]*)\)", bare) for label in re.findall(r"\w+", inside)}
    assert selected | grouped <= labels
    for open_, close in ("()", "{}", "[]"):
        assert bare.count(open_) == bare.count(close)


def test_no_metric_is_without_a_panel() -> None:
    shown = " ".join(expression for _, expression in expressions())
    names = {name for name in KNOWN if not name.endswith(("_bucket", "_sum", "_count", "_created"))}
    series = {name for name in names if f"{name}_bucket" not in KNOWN} - {
        name[:-6] for name in names if name[-6:] == "_total"
    }
    assert {name for name in series if not re.search(rf"\b{name}\b", shown)} == set()
    histograms = {name.removesuffix("_bucket") for name in KNOWN if name.endswith("_bucket")}
    assert {name for name in histograms if f"{name}_bucket" not in shown} == set()


def test_every_alert_is_explained_and_tested() -> None:
    alerts = {rule["alert"] for rule in rules("alert")}
    for rule in rules("alert"):
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith((".", "list"))
    rows = set(re.findall(r"(?m)^\| `([A-Z][a-z]\w+)` \|", GUIDE))
    assert alerts == rows, "every alert has a row in the section Alerts of docs/guide/operating.md"
    tests = [test for name in TESTS for test in yaml.safe_load((PROMETHEUS / name).read_text("utf-8"))["tests"]]
    firing = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each["exp_alerts"]}
    assert firing == alerts, "every alert has a case in deploy/prometheus/rules_test.yml in which it fires"


def test_authorized_scrapes_differ_in_their_credentials_alone() -> None:
    plain, authorized = (
        yaml.safe_load((PROMETHEUS / name).read_text("utf-8")) for name in ("prometheus.yml", "authorized.yml")
    )
    for job in authorized["scrape_configs"]:
        assert job.pop("authorization") == {"credentials_file": "/run/secrets/metrics_key"}
    assert authorized == plain


def test_recorded_ratios_differ_in_their_window_alone() -> None:
    for rule in rules("record"):
        window = rule["record"].rpartition("ratio_rate")[2]
        assert set(re.findall(r"\[(\w+)\]", rule["expr"])) == {window}
    assert len({re.sub(r"\[\w+\]", "", rule["expr"]) for rule in rules("record")}) == 1


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on PATH")
@pytest.mark.parametrize(
    "check",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "config", "--syntax-only", "authorized.yml"),
        pytest.param(("test", "rules", *TESTS), marks=pytest.mark.thorough),
    ],
)
def test_rules_pass_promtool(check: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *check], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboard_is_well_formed(path: Path) -> None:
    dashboard = json.loads(path.read_text("utf-8"))
    assert re.fullmatch(r"[a-z-]{1,40}", dashboard["uid"])
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", path.read_text("utf-8")))
    assert used - {"__rate_interval", "__all"} == variables
    every = dashboard["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    covered: set[tuple[int, int]] = set()
    for panel in every:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & covered, panel["title"]
        covered |= cells
    for panel in panels(dashboard):
        assert panel["fieldConfig"]["defaults"]["unit"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references) > 0


def test_dashboards_have_different_identities() -> None:
    identities = [json.loads(path.read_text("utf-8"))["uid"] for path in DASHBOARDS]
    assert len(set(identities)) == len(identities) >= 2
