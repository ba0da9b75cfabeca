"""The published document: it changes only on purpose, describes what clients need, and a generated client works."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import uvicorn

from api_schemas.base import COMPONENT
from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from service.api.route_scopes import route_scopes
from service.main import create_app
from service.resources.catalogue import resources
from service.settings import Settings
from tests.access.keys import make_key
from tests.contract.published_document import PATH, published_text

DOCUMENT: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
OPERATIONS = {
    f"{method} {path}": operation for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
}
CLIENT = "privacy_bounds_client"


def test_committed_document_equals_published_document() -> None:
    changed = "the published document has changed; if that is meant, run python -m tests.contract.published_document"
    assert PATH.read_text("utf-8") == published_text(), changed


def test_operation_ids_are_those_of_resources() -> None:
    names = {operation["operationId"] for operation in OPERATIONS.values()}
    discovery = {"catalogue", "sources", "limits", "version", "livez", "readyz", "metrics"}
    jobs = {"submit_job", "list_jobs", "job", "cancel_job", "job_events", "job_results", "estimate"}
    assert names == {
        "result",
        "decision",
        "public_keys",
        *(computation.operation for computation in resources()),
        *discovery,
        *jobs,
    }
    assert all(len(operation["tags"]) == 1 for operation in OPERATIONS.values())
    assert all(operation.get("description") for operation in OPERATIONS.values())


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if "requestBody" in operation])
def test_request_bodies_have_two_valid_named_examples(name: str) -> None:
    content = OPERATIONS[name]["requestBody"]["content"]["application/json"]
    assert len(content["examples"]) >= 2
    validator = jsonschema_rs.validator_for(content["schema"] | {"components": DOCUMENT["components"]})
    for example in content["examples"].values():
        assert example["summary"]
        assert validator.is_valid(example["value"])


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_error_response_is_a_problem(name: str) -> None:
    for status, answer in OPERATIONS[name]["responses"].items():
        if int(status) >= 400 and (name, status) != ("get /readyz", "503"):  # Describes the error in its own words.
            [(media_type, content)] = answer["content"].items()
            assert media_type == "application/problem+json", status
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}, status


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_response_has_a_schema(name: str) -> None:
    responses = OPERATIONS[name]["responses"]
    forms = dict(responses["200" if "200" in responses else "202"]["content"])
    if "metrics" not in name and "events" not in name:
        content = forms.pop("application/json")
        signed = forms.pop(ENVELOPE_MEDIA_TYPE, None)
        assert signed in (None, {"schema": {"$ref": "#/components/schemas/Envelope"}})
        assert all(form["schema"]["type"] == "string" for form in forms.values())  # Further requested media types.
        for schema in content["schema"].get("anyOf", [content["schema"]]):
            assert schema["$ref"].startswith("#/components/schemas/")


@pytest.mark.parametrize("name", OPERATIONS)
def test_response_headers_are_named_components(name: str) -> None:
    headers = DOCUMENT["components"]["headers"]
    for status, answer in OPERATIONS[name]["responses"].items():
        named = set(answer["headers"])
        assert named <= set(headers)
        assert "X-Request-ID" in named
        is_result = "304" in OPERATIONS[name]["responses"] or {"200", "202"} <= set(OPERATIONS[name]["responses"])
        assert ("ETag" in named) == (is_result and status in ("200", "304"))
        assert status != "304" or name.startswith("get ")
        assert ("Retry-After" in named) == (status in ("202", "429") or (status == "503" and name != "get /readyz"))
        has_limit = "429" in OPERATIONS[name]["responses"] and status in ("200", "202", "429")
        assert {"RateLimit", "RateLimit-Policy"}.issubset(named) == has_limit
        assert ("Location" in named) == (status == "202")


def test_servers_and_tags_are_published() -> None:
    assert DOCUMENT["servers"] == [{"url": "/", "description": "This service."}]
    described = {tag["name"] for tag in DOCUMENT["tags"] if tag["description"]}
    assert described == {operation["tags"][0] for operation in OPERATIONS.values()}


def test_closed_operations_name_their_scope() -> None:
    """Every operation that requires credentials names its scope.

    A service that only its own machine reaches needs no credentials, so the document allows calls without them too.
    """
    assert DOCUMENT["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert DOCUMENT["security"] == []
    scopes = route_scopes()
    for name, operation in OPERATIONS.items():
        method, path = name.split()
        needed = "metrics" if path == "/readyz" else scopes[path]
        is_open = needed == "open"
        assert operation.get("security") == (None if is_open else [{"bearer": [needed]}, {}]), method
        assert {"401", "403"} <= operation["responses"].keys() or is_open
        for status in {"401", "403"} & operation["responses"].keys():
            assert "WWW-Authenticate" in operation["responses"][status]["headers"]


def test_archives_are_octet_stream_bodies() -> None:
    taken = [
        name
        for name, it in OPERATIONS.items()
        if "application/octet-stream" in it.get("requestBody", {}).get("content", {})
    ]
    assert taken == ["post /v1/audits/glir", "post /v1/pmp/gaussian"]


def test_unions_are_discriminated_by_required_type() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    discriminated = [node for node in _nodes(schemas) if "discriminator" in node]
    assert len(discriminated) >= 3
    for node in discriminated:
        assert node["discriminator"]["propertyName"] == "type"
        for reference in node["discriminator"]["mapping"].values():
            assert "type" in schemas[reference.rpartition("/")[2]]["required"]


NAMED = (
    "Direction",
    "Evidence",
    "NeighboringRelation",
    "Infinity",
    "MinusInfinity",
    "Engine",
    "Method",
    "MethodUsed",
    "Holds",
)
UNIONS = ("Mechanism", "Question", "ThreatModel", "PureThreatModel", "MembershipConversion")


def test_repeated_schemas_are_named_components() -> None:
    """Every enumeration or union that occurs repeatedly is a named component.

    Generators of clients build a type for every one that stands inline.
    """
    schemas = DOCUMENT["components"]["schemas"]
    assert set(NAMED) | set(UNIONS) <= set(schemas)
    assert all("enum" in schemas[name] for name in NAMED)
    assert all("discriminator" in schemas[name] for name in UNIONS)
    inline = [node for schema in schemas.values() for node in list(_nodes(schema))[1:]]
    enumerations = [tuple(node["enum"]) for node in inline if "enum" in node]
    assert len(enumerations) == len(set(enumerations))
    named = {tuple(schema["enum"]) for schema in schemas.values() if "enum" in schema}
    assert not named & set(enumerations)
    assert COMPONENT not in PATH.read_text("utf-8")


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_property_is_described(name: str) -> None:
    """Every property of a schema has a description, at the property or at the named schema it refers to.

    A constant `type` needs none.
    """
    schemas = DOCUMENT["components"]["schemas"]
    for field, schema in schemas[name].get("properties", {}).items():
        named = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
        assert schema.get("description") or named.get("description") or "const" in schema, f"{name}.{field}"


def test_request_and_response_schemas_are_separate() -> None:
    """Schemas of requests and of responses are separate.

    A request may omit fields with defaults, and a response that echoes them always contains them.
    """
    schemas = DOCUMENT["components"]["schemas"]
    assert "direction" not in schemas["EpsilonQuestion"]["required"]
    assert "direction" in schemas["EpsilonQuestionEcho"]["required"]
    for name, schema in schemas.items():
        assert schema.get("title", name) == name


def test_only_numbers_that_may_be_infinite_are_strings() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    infinite = {
        name
        for name, schema in schemas.items()
        for node in _nodes(schema)
        if node.get("$ref", "").endswith("/Infinity")
    }
    assert {"NumberAnswer", "GdpMuAnswer", "EnclosedNumber", "MethodNumber"} <= infinite
    assert not infinite & {"ProbabilityAnswer", "AdvantageOverPriorAnswer", "GuaranteeAnswer", "EnclosedProbability"}
    for field in ("value", "lower", "upper"):
        assert '"maximum": 1' in json.dumps(schemas["ProbabilityAnswer"]["properties"][field])


def test_answers_are_discriminated_by_question_type() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    mapping = schemas["Answer"]["discriminator"]["mapping"]
    assert set(mapping) == set(schemas["Question"]["discriminator"]["mapping"])


def test_no_schema_has_input_and_output_twins() -> None:
    """Schemas of requests and echoes have distinct names, without the endings `-Input` and `-Output`.

    Twins with these endings confuse generated clients.
    """
    assert not [name for name in DOCUMENT["components"]["schemas"] if name.endswith(("-Input", "-Output"))]


def test_no_named_type_and_no_optional_property_is_a_constant() -> None:
    """Generated Python clients have two checks of an optional constant, of which strict type checkers reject one."""
    schemas: dict[str, Any] = DOCUMENT["components"]["schemas"]
    assert {name for name, schema in schemas.items() if "const" in schema} == set()
    optional = {
        f"{name}.{key}"
        for name, schema in schemas.items()
        for key, field in schema.get("properties", {}).items()
        if "const" in field and key not in schema.get("required", [])
    }
    assert optional == set()


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from _nodes(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _nodes(inner)


@pytest.fixture(scope="module")
def client_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate a Python client from the committed document."""
    folder = tmp_path_factory.mktemp("generated")
    scripts = Path(sys.executable).parent
    subprocess.run(
        [scripts / "openapi-python-client", "generate", "--path", PATH, "--output-path", CLIENT, "--meta", "none"],
        cwd=folder,
        env=os.environ | {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"},
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def key_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def live_address(key_folder: Path) -> Iterator[str]:
    """Yield the address of a service that requires credentials, listening on a free port of this machine."""
    settings = Settings(require_authentication=True, data_folder=key_folder)
    server = uvicorn.Server(uvicorn.Config(create_app(settings), host="127.0.0.1", port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def test_generated_client_passes_mypy(client_folder: Path) -> None:
    # The generator's template passes `*args: object` on to `__exit__`, which our document cannot change.
    (client_folder / "mypy.ini").write_text(f"[mypy]\n[mypy-{CLIENT}.client]\ndisable_error_code = arg-type\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", CLIENT]
    checked = subprocess.run(command, cwd=client_folder, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_generated_client_sends_request_and_parses_response(
    client_folder: Path, live_address: str, key_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(client_folder)
    models = importlib.import_module(f"{CLIENT}.models")
    bounds = importlib.import_module(f"{CLIENT}.api.bounds.bounds")
    client_module = importlib.import_module(f"{CLIENT}.client")
    request = models.BoundsRequest(
        mechanism=models.RepeatedMechanism(
            type_="repeated", steps=100, mechanism=models.GaussianMechanism(type_="gaussian", noise_multiplier=10.0)
        ),
        questions=[
            models.EpsilonQuestion(type_="epsilon", delta=1e-5),
            models.EpsilonQuestion(type_="epsilon", delta=0.0),
            models.TradeOffQuestion(type_="trade_off", false_positive_rates=[0.001, 0.1]),
            models.GdpMuQuestion(type_="gdp_mu"),
        ],
    )
    refusable = models.BoundsRequest(mechanism=models.GdpMechanism(type_="gdp", mu=-1.0), questions=request.questions)
    with client_module.Client(base_url=live_address) as client:
        unknown = bounds.sync(client=client, body=request)
    assert isinstance(unknown, models.Problem)
    assert unknown.status == 401
    token = make_key(key_folder, "compute")
    with client_module.AuthenticatedClient(base_url=live_address, token=token) as client:
        answer = bounds.sync(client=client, body=request)
        refused = bounds.sync(client=client, body=refusable)
    assert isinstance(answer, models.BoundsResponse)
    epsilon, infinite, curve, mu = answer.answers
    # One hundred steps at sigma = 10 are a Gaussian mechanism with mu = 1 (peers' case G1, closed form).
    assert isinstance(epsilon, models.NumberAnswer)
    assert epsilon.lower - 1e-9 <= 4.3771780957 <= epsilon.upper + 1e-9
    assert infinite.value == "Infinity"
    assert isinstance(curve, models.TradeOffAnswer)
    assert curve.points[0].power.lower - 1e-15 <= 1.82984684056566e-2 <= curve.points[0].power.upper + 1e-15
    assert isinstance(mu, models.GdpMuAnswer)
    assert mu.lower <= 1.0 <= mu.upper
    assert isinstance(refused, models.Problem)
    assert refused.status == 422
    assert refused.errors[0].pointer == "/mechanism/mu"


def _shows_a_value(schema: dict[str, Any], schemas: dict[str, Any]) -> bool:
    """Return whether a schema has an example or lists its values. Objects, booleans and null need no example."""
    if {"examples", "const", "enum", "default"} & schema.keys() or schema.get("type") in ("boolean", "null"):
        return True
    if "$ref" in schema:
        target = schemas[schema["$ref"].rpartition("/")[2]]
        return target.get("type") == "object" or "oneOf" in target or _shows_a_value(target, schemas)
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return all(_shows_a_value(each, schemas) for each in schema[union])
    return schema.get("type") == "array" and _shows_a_value(schema.get("items", {}), schemas)


def test_every_property_has_an_example() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    without = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, described in schema.get("properties", {}).items()
        if not _shows_a_value(described, schemas)
    ]
    assert not without


def test_examples_of_properties_are_valid() -> None:
    for name, schema in DOCUMENT["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            validator = jsonschema_rs.validator_for(described | {"components": DOCUMENT["components"]})
            for example in described.get("examples", ()):
                assert validator.is_valid(example), (name, field, example)
