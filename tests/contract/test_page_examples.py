"""Every example of README.md and the guide runs, and the output below it is the real output."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from starlette.testclient import TestClient

from api_schemas.fields import shape_of, type_of
from api_schemas.mechanisms import MechanismSpec
from api_schemas.membership_conversions import MembershipConversion
from api_schemas.questions import QuestionSpec
from api_schemas.threat_models import ThreatModelSpec
from service.command.main import main
from service.command.parser import build_parser
from service.command.questions import QUESTIONS as DIRECT_QUESTIONS
from service.jobs.local.store import SqliteStore
from service.jobs.repository import Quota
from service.resources.abstract import command_of
from service.resources.catalogue import RESOURCES, resource
from tests.contract.pages import PAGES, Block, Call, blocks, calls, commands, objects_of_tables
from tests.signing.statements import bounds_envelope, signed_report, write_keys
from tests.system.jobs import new_job
from tests.system.running_server import running_server

DP_SGD = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
EPSILON = {"type": "epsilon", "delta": 1e-5}
CORES = {"sh", "json", "text", "python", "csv", "markdown", "yaml"}
NOT_RUN = re.compile(
    r"(?m)^(make|docker|production|kubectl|install|chown|cp|alias|cd|"
    r"git|eval|source|pip|(\.venv/bin/)?privacy-bounds (serve|mcp))\b"
)
ADDRESS = "http://127.0.0.1:8000"
ASKS_A_SERVICE = re.compile(rf'(?m)^[^#\n]*Client\("{ADDRESS}"\)')
"""Characters that do not occur in comments."""
TEXTS = ("text/plain", "text/markdown", "text/csv", "application/yaml", "application/json")


def types(union: object) -> set[str]:
    return {type_of(model) for model in shape_of(union).models}


MECHANISMS, QUESTIONS = types(MechanismSpec), types(QuestionSpec)
ATTACKERS, CONVERSIONS = types(ThreatModelSpec), types(MembershipConversion)
ROUTES = {
    "free": "/v1/calibrations",
    "claims": "/v1/claims",
    "runs": "/v1/comparisons",
    "conversions": "/v1/conversions/membership",
    "policy": "/v1/assessments",
    "context": "/v1/assessments",
    "vary": "/v1/sweeps",
    "questions": "/v1/bounds",
    "grid": "/v1/curves",
    "methods": "/v1/curves",
    "format": "/v1/imports",
    "rules": "policy",
}


def requested(value: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the request that a JSON object of a page stands for, or None if it is no request or part of one."""
    kind = value.get("type")
    if "question" in value and ("at_most" in value or "at_least" in value):
        return "/v1/calibrations", {"mechanism": DP_SGD, "free": "/mechanism/noise_multiplier", "targets": [value]}
    if kind in QUESTIONS:
        return "/v1/bounds", {"mechanism": DP_SGD, "questions": [value]}
    attackers = value.get("components", [{}])[0].get("threat_model")
    if kind in MECHANISMS and attackers is None:
        return "/v1/bounds", {"mechanism": value, "questions": [EPSILON], "relative_tolerance": 1e-3}
    if kind in ATTACKERS:  # A mixture may be one of mechanisms or of attackers.
        run = {"type": "gaussian", "noise_multiplier": 2.0}
        return "/v1/bounds", {"mechanism": run, "threat_model": value, "questions": [{"type": "advantage"}]}
    if kind in CONVERSIONS:
        return "/v1/conversions/membership", {"conversions": [value]}
    for field, route in ROUTES.items():
        if field in value and "digest" not in value:
            if route == "policy":
                return "/v1/assessments", {"mechanism": DP_SGD, "context": {"delta": 1e-6}, "policy": value}
            return route, value if field == "format" else {
                "mechanism": DP_SGD
            } | value if "runs" not in value else value
    return ("/v1/curves", {"mechanism": DP_SGD}) if value == {} else None


def send(client: TestClient, call: Call) -> Any:
    if not call.body:
        return client.get(call.path, headers=call.headers)
    body = Path(call.body[1:]).read_bytes() if call.body.startswith("@") else call.body.encode()
    return client.post(call.path, content=body, headers=call.headers)


@pytest.mark.parametrize("name", PAGES)
def test_examples_of_page_run_and_match_output(
    name: str, client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the examples in order. A printed output is compared with the answer to the last request before it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    last: Call | None = None
    held: dict[str, Any] = {}
    for block in blocks(name):
        where = f"{block.page}:{block.line}"
        drawn = not block.language and "──" in block.text
        assert drawn or block.language in CORES, f"{where}: a block says its language"
        match block.language:
            case "sh":
                last = run_shell(client, block, tmp_path) or last
            case "python" if ASKS_A_SERVICE.search(block.text):
                with running_server(tmp_path) as live:
                    address = str(live.base_url).rstrip("/")
                    exec(compile(block.text.replace(ADDRESS, address), where, "exec"), held)
            case "python":
                exec(compile(block.text, where, "exec"), held)
            case "json" if "mcpServers" in block.text:
                for server in json.loads(block.text)["mcpServers"].values():
                    assert build_parser({}, ()).parse_args(server["args"]).command == "mcp", where
            case "json" if (asked := requested(json.loads(block.text))) is not None:
                last = Call(asked[0], {"Content-Type": "application/json"}, json.dumps(asked[1]))
                assert send(client, last).status_code == 200, (where, send(client, last).text)
            case "json":
                assert last is not None, where
                assert_printed(send(client, last).json(), json.loads(block.text), where)
            case "":  # A drawing.
                pass
            case _:
                assert last is not None, where
                assert_written(client, last, block)


def run_shell(client: TestClient, block: Block, folder: Path) -> Call | None:
    """Send curl requests, run commands of the command line, and return the last request."""
    found = calls(block.text)
    for call in found:
        response = send(client, call)
        assert response.status_code in (200, 202), (block.page, block.line, response.text)
    ran = [each for each in commands(block.text) if each[0] not in ("serve", "completion", "mcp")]
    for words in ran:
        if words[0] == "operate":
            run_operator_command(words, folder)
            continue
        if words[0] in ("keys", "backup", "restore"):
            run_data_folder_command(words, folder)
            continue
        if words[0] in ("verify", "replay", "signing-key"):
            write_signed(folder)
            assert main(words) == 0, words
            continue
        if words[0] not in (*DIRECT_QUESTIONS, "cite", "figure"):
            prepare(words, folder)
        assert main(words) in (0, 1), words
    lines = [line for line in block.text.splitlines() if re.match(r"[a-z.]", line)]
    rest = [line for line in lines if not line.startswith("curl") and not NOT_RUN.match(line)]
    assert len(rest) == len(ran), f"{block.page}:{block.line}: what no test runs: {rest}"
    return found[-1] if found else None


def write_signed(folder: Path) -> None:
    """Write the signed files that the guide names, the public keys that verify them, and a list of no disputes."""
    (folder / "answer.json").write_bytes(bounds_envelope())
    (folder / "report.html").write_bytes(signed_report())
    write_keys(folder, 1)
    (folder / "quarantined_results").touch()


def run_operator_command(words: list[str], folder: Path) -> None:
    """Run a command for operators on a data folder with one job. Its id replaces the word ID of the page."""
    with closing(SqliteStore(folder)) as store, pytest.MonkeyPatch.context() as patch:
        job = store.add(replace(new_job(), digest="sha256:" + "0" * 64), b"{}", None, b"", Quota(9, 2**20), 1)
        patch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(folder))
        assert main([job.id if word == "ID" else word for word in words]) == 0, words


def run_data_folder_command(words: list[str], folder: Path) -> None:
    """Run a command on API keys or a backup. ID of the page is the first key, and /backups/... a file of the folder."""
    text = re.sub(r"/backups/[^\s$]*(\$\([^)]*\)\S*)?", str(folder / "backup.zip"), " ".join(words))
    if "ID" in text.split():
        text = text.replace("ID", json.loads((folder / "keys.json").read_text())["keys"][0]["id"], 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(folder / "restored" if words[0] == "restore" else folder))
        assert main(text.split()) == 0, words


def prepare(words: list[str], folder: Path) -> None:
    """Write the files that a command names, with the first example of its resource."""
    options = dict(pairwise(words))
    drawn = options.get("--resource", "curves") if words[0] == "plot" else ""
    [computed] = [resource(name) for name in RESOURCES if command_of(name) == words[0] or name == drawn]
    [example, *_] = (each["value"] for each in computed.examples.values())
    example = dict(example)
    for option, value in pairwise(words):
        member = option.removeprefix("--")
        if member in computed.files:
            taken = example.pop(member, None) or next(
                each["value"][member] for each in computed.examples.values() if member in each["value"]
            )
            (folder / value).write_text(json.dumps(taken))
    file = folder / words[1]
    if file.suffix == ".npz":
        archive(file)
    else:
        file.write_text(json.dumps(example))


def archive(file: Path) -> None:
    """Write the arrays that a page calls gradients.npz or points.npz."""
    draw = np.random.default_rng(1)
    if file.name == "points.npz":
        np.savez(file, points=draw.normal(size=(8, 2)), query="sum", noise_std=1.0, delta=0.01)
        return
    background = draw.normal(size=(200, 3))
    queries = draw.normal(size=(4, 3))
    np.savez(
        file,
        allow_pickle=False,
        batch_size=20,
        **{
            "steps.0.mean_gradient": background[:20].mean(axis=0),
            "steps.0.query_gradients": queries,
            "steps.0.background_gradients": background,
        },
    )


def assert_printed(answer: object, printed: object, where: str) -> None:
    """Check that the values that a page prints are in the answer.

    Fields may be left out, list entries may not; a float may be rounded.
    """
    if isinstance(printed, dict):
        assert isinstance(answer, dict), where
        for key, value in cast("dict[str, object]", printed).items():
            assert key in answer, f"{where}/{key}"
            assert_printed(cast("dict[str, object]", answer)[key], value, f"{where}/{key}")
    elif isinstance(printed, list):
        assert isinstance(answer, list), where
        for index, (left, right) in enumerate(zip(answer, cast("list[object]", printed), strict=True)):
            assert_printed(left, right, f"{where}/{index}")
    elif isinstance(printed, float) and isinstance(answer, float):
        # The last digits may differ on another platform.
        assert math.isclose(answer, printed, rel_tol=1e-9), (where, answer)
    else:
        assert answer == printed, (where, answer)


def assert_written(client: TestClient, call: Call, block: Block) -> None:
    """Check that a text is part of one of the renderings of the last answer, apart from line breaks."""
    wanted = " ".join(block.text.split())
    for form in TEXTS:
        text = send(client, call._replace(headers=call.headers | {"Accept": form})).text
        if wanted in " ".join(text.split()):
            return
    pytest.fail(f"{block.page}:{block.line}: no form of the answer has this text")


ROWS = [(name, json.dumps(value)) for name in PAGES for value in objects_of_tables(name)]


@pytest.mark.parametrize(("name", "sent"), dict.fromkeys(ROWS), ids=lambda each: each[:70])
def test_object_in_table_can_be_sent(name: str, sent: str, client: TestClient) -> None:
    asked = requested(json.loads(sent))
    assert asked is not None, "a table has an object that nothing takes"
    response = client.post(asked[0], json=asked[1])
    assert response.status_code == 200, response.text
