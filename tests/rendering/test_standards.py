"""Documents of other standards: valid, deterministic, rounded to the safe side, and silent without a bound."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from api_schemas.assessments import AssessmentsResponse
from service.engine_version import ENGINE_VERSION
from service.rendering.documents import DOCUMENT_WRITERS
from service.rendering.documents.croissant import CONFORMS_TO, CONTEXT, CROISSANT
from service.rendering.documents.cyclonedx import CYCLONEDX
from service.rendering.documents.hugging_face import YAML
from service.rendering.documents.metrics import is_bounded, metrics
from service.rendering.documents.rows import rows
from service.rendering.numbers import rounded_up
from service.rendering.sentences.void import STILL
from tests.rendering.assessment_cases import COUNT, DPSGD, FIXED, GAUSSIAN, HOSTILE, RULES, SOME, assess, assessment
from tests.slow_marker import sample_of, thorough

FORMS: Final = (CYCLONEDX, CROISSANT, YAML)
RAI: Final = set(
    re.findall(
        r"\w+",
        """dataCollection dataCollectionType dataCollectionMissingData dataCollectionRawData dataCollectionTimeframe
        dataImputationProtocol dataPreprocessingProtocol dataManipulationProtocol dataAnnotationProtocol
        dataAnnotationPlatform dataAnnotationAnalysis dataReleaseMaintenancePlan personalSensitiveInformation
        dataSocialImpact dataBiases dataLimitations dataUseCases annotationsPerItem annotatorDemographics
        machineAnnotationTools""",
    )
)
"""The properties that Croissant RAI 1.0 defines."""
ONE_TEXT: Final = {"dataReleaseMaintenancePlan", "dataSocialImpact"}
"""The used properties that take a single text."""
NUMBERS: Final = [number if number in SOME else thorough(number) for number in range(COUNT)]
CLAIMS_OF_BOUNDS: Final = re.compile(r"at most|differentially private|no more than|cannot exceed", re.IGNORECASE)


def validator_of_cyclonedx(version: str = "bom-1.7") -> Any:
    """Return a validator of the schema in cyclonedx-python-lib, without importing the package."""
    found = find_spec("cyclonedx")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "schema" / "_res"

    def schema(name: str) -> Any:
        return json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text("utf-8"))

    beside = ("spdx", "jsf-0.82", *(["cryptography-defs"] if version == "bom-1.7" else []))
    named = [(f"http://cyclonedx.org/schema/{name}.SNAPSHOT.schema.json", schema(name)) for name in beside]
    registry = jsonschema_rs.Registry(named, draft=jsonschema_rs.Draft7)
    return jsonschema_rs.Draft7Validator(schema(version), registry=registry, validate_formats=True)


VALID_CYCLONEDX: Final = validator_of_cyclonedx()


def written(response: AssessmentsResponse, form: str) -> Any:
    text = DOCUMENT_WRITERS[form](response)
    return yaml.safe_load(text) if form == YAML else json.loads(text, parse_constant=pytest.fail)


def leaves(node: Any) -> Iterator[Any]:
    """Yield all values of a document, and the names of its members."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield from leaves(value)
    elif isinstance(node, list):
        for value in node:
            yield from leaves(value)
    else:
        yield node


@pytest.mark.parametrize("numbers", [SOME, thorough(range(COUNT))], ids=len)
def test_assessments_have_every_kind(numbers: Sequence[int]) -> None:
    found = [assessment(number) for number in numbers]
    assert {each.verdict for each in found} >= {None, "met", "met_if_attested", "void"}
    assert {each.summary.bounded for each in found} == {True, False}
    assert {each.context.subject is None for each in found} == {True, False}
    assert {each.judged_as is None for each in found} == {True, False}
    assert max(len(each.threat_models) for each in found) >= 3
    assert any(math.isinf(row.value) for each in found for row in rows(each.threat_models[0].answers))


@pytest.mark.parametrize("number", NUMBERS)
def test_every_document_is_valid_cyclonedx(number: int) -> None:
    document = written(assessment(number), CYCLONEDX)
    VALID_CYCLONEDX.validate(document)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.7")
    names = [node["bom-ref"] for node in nodes(document) if "bom-ref" in node]
    assert len(set(names)) == len(names)
    declared = document["declarations"]
    pointed = [claim["target"] for claim in declared["claims"]]
    pointed += [name for claim in declared["claims"] for side in SIDES for name in claim.get(side, ())]
    attestations = declared.get("attestations", [])
    pointed += [each["assessor"] for each in attestations if "assessor" in each]
    pointed += [
        name for each in attestations for mapped in each["map"] for listed in mapped.values() for name in listed
    ]
    assert set(pointed) <= set(names)


SIDES: Final = ("evidence", "counterEvidence")


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from nodes(value)


def test_schema_rejects_invalid_document() -> None:
    document = written(assessment(0), CYCLONEDX)
    [metric, *_] = document["components"][0]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    metric["value"] = 1.5
    assert not VALID_CYCLONEDX.is_valid(document)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_document_is_croissant_with_defined_properties(number: int) -> None:
    response = assessment(number)
    document = written(response, CROISSANT)
    assert document["@context"] == CONTEXT
    assert document["@type"] == "sc:Dataset"
    assert document["conformsTo"] == list(CONFORMS_TO)
    assert document["name"]
    assert document["description"]
    ours = {name.removeprefix("rai:") for name in document if name.startswith("rai:")}
    assert "dataReleaseMaintenancePlan" in ours
    assert ours <= RAI
    for name in ours:
        assert isinstance(document[f"rai:{name}"], str if name in ONE_TEXT else list)
    schema_org = {"name", "description", "version", "url", "sdDatePublished", "sdPublisher"}
    assert {name for name in document if ":" not in name} <= {"@context", "@type", "conformsTo"} | schema_org
    assert ("personalSensitiveInformation" in ours) >= bool(metrics(response))


@pytest.mark.parametrize("number", NUMBERS)
def test_every_model_card_block_has_required_fields(number: int) -> None:
    response = assessment(number)
    text = DOCUMENT_WRITERS[YAML](response)
    block = yaml.safe_load(text)
    assert text.startswith("---\n")
    assert "\n---" not in text[3:]
    assert set(block) <= {"model_name", "tags", "privacy_bounds", "model-index"}
    for entry in block.get("model-index", ()):
        assert entry["name"] == block["model_name"]
        for result in entry["results"]:
            assert result["task"]["type"]
            assert result["dataset"]["type"]
            assert result["dataset"]["name"]
            assert all(isinstance(each["value"], float) and each["type"] for each in result["metrics"])
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.ScalarEvent) and event.style != '"':  # All readers parse a plain scalar alike.
            assert re.fullmatch(r"[A-Za-z_][\w. -]*|-?\d+\.\d+([eE][-+]\d+)?", event.value)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_are_those_of_assessment_rounded_to_safe_side(number: int, form: str) -> None:
    response = assessment(number)
    listed = listed_numbers(response, form)
    assert sorted(listed) == sorted(expected_numbers(response))
    for key, value in listed:
        assert math.isfinite(value), key


def listed_numbers(response: AssessmentsResponse, form: str) -> list[tuple[str, float]]:
    """Return the numbers of a document with their titles."""
    document = written(response, form)
    if form == YAML:
        entries = [each for entry in document.get("model-index", ()) for each in entry["results"][0]["metrics"]]
        return [(each["name"], each["value"]) for each in entries]
    if form == CYCLONEDX:
        card = document["components"][0]["modelCard"]
        entries = card.get("quantitativeAnalysis", {}).get("performanceMetrics", [])
        for each in entries:
            ends = {name: float(end) for name, end in each.get("confidenceInterval", {}).items()}
            assert ends.get("lowerBound", -math.inf) <= float(each["value"]) == ends.get("upperBound", math.inf)
        return [(each["slice"], float(each["value"])) for each in entries]
    found: list[tuple[str, float]] = []
    values = {each.title: each.row.value for each in metrics(response)}
    for line in document.get("rai:personalSensitiveInformation", ()):
        title, colon, number = line.rpartition(": ")
        if colon and title in values:
            printed, percent, _ = number.removeprefix("at most ").partition("\xa0%")
            bound = Decimal(printed.rstrip(".")) / (100 if percent else 1)
            assert Decimal(values[title]) <= bound <= Decimal(values[title]) * Decimal("1.011")
            found.append((title, values[title]))
    return found


def expected_numbers(response: AssessmentsResponse) -> Iterator[tuple[str, float]]:
    """Yield the valid numbers: finite, and of attackers without a refuted assumption."""
    if not response.summary.bounded:
        return
    titles = {each.row.key: each.title for each in metrics(response)}
    for index, attacked in enumerate(response.threat_models):
        if any(each.holds == "no" and each.if_not != STILL for each in attacked.assumptions):
            continue
        model = attacked.threat_model
        who = ", ".join(filter(None, (model.type, getattr(model, "neighboring_relation", None))))
        who += ", valid only together with the worst case" if attacked.conditional else ""
        for row in rows(attacked.answers):
            if math.isfinite(row.value) and not (row.key == "epsilon" and response.context.delta == 1):
                yield f"{row.title} (attacker {who})", row.value
        if index == 0 and response.gdp is not None:
            yield titles["gdp_mu"], response.gdp.mu["upper"] or math.inf
            yield titles["gdp_regret"], response.gdp.regret["upper"] or 0.0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("number", NUMBERS)
def test_without_a_bound_no_document_claims_one(number: int, form: str) -> None:
    response = assessment(number)
    document = written(response, form)
    message = [each for each in leaves(document) if isinstance(each, str)]
    if is_bounded(response):
        listed = listed_numbers(response, form)
        assert listed
        return
    assert not any(isinstance(each, float) for each in leaves(document))
    assert "differential-privacy" not in message
    for each in message:
        assert not CLAIMS_OF_BOUNDS.search(each), each
    for attacked in response.threat_models:
        for row in rows(attacked.answers):
            if len(repr(row.value)) > 8:  # A number that appears for no other reason.
                assert not any(repr(row.value) in each or rounded_up(row.value) in each for each in message)
    if response.decision is not None:
        assert not any(each.meaning in text for each in response.decision.rulings for text in message)


def test_unbounded_runs_with_and_without_policy_are_covered() -> None:
    void = {"delta": 1e-6, "attested": [{"code": "noise_is_fresh", "holds": "no", "by": "audit"}]}
    for policy in ({}, {"policy": {"name": "gate", "rules": [RULES[0]]}}):
        response = assess({"mechanism": GAUSSIAN, "context": void, **policy})
        for form in FORMS:
            assert listed_numbers(response, form) == []
            message = " ".join(each for each in leaves(written(response, form)) if isinstance(each, str))
            assert "noise_is_fresh" in message
            assert not CLAIMS_OF_BOUNDS.search(message)


@pytest.mark.parametrize("number", NUMBERS)
def test_infinite_or_trivial_numbers_are_written_in_words(number: int) -> None:
    response = assessment(number)
    if not is_bounded(response):
        return
    first = list(rows(response.threat_models[0].answers))
    left_out = [row for row in first if math.isinf(row.value) or (row.key == "epsilon" and response.context.delta == 1)]
    texts = {
        CYCLONEDX: lambda document: document["components"][0]["modelCard"]["considerations"]["technicalLimitations"],
        CROISSANT: lambda document: document["rai:dataLimitations"],
        YAML: lambda document: document["privacy_bounds"]["cautions"],
    }
    for form, limitations in texts.items():
        sentences = limitations(written(response, form))
        for row in left_out:
            assert any(each.startswith(row.title) and "listed" in each for each in sentences)
        assert ("differential-privacy" in written(response, YAML)["tags"]) == (first[0] not in left_out)


@sample_of(26)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", HOSTILE)
def test_names_round_trip(name: str, form: str) -> None:
    by = {"code": "noise_is_fresh", "holds": "yes", "by": name}
    context = {"delta": 1e-6, "subject": {"name": name, "version": name}, "prepared_by": name, "attested": [by]}
    policy = {"name": name, "rules": [{**RULES[0], "name": name}]}
    document = written(assess({"mechanism": GAUSSIAN, "context": context, "policy": policy}), form)
    if form == CYCLONEDX:
        VALID_CYCLONEDX.validate(document)
        [component] = document["components"]
        assert (component["name"], component["version"]) == (name, name)
        assert document["metadata"]["authors"] == [{"name": name}]
        assert [each["organization"]["name"] for each in document["declarations"]["assessors"]] == [name]
        assert len(document["declarations"]["claims"]) == 3
    elif form == CROISSANT:
        assert (document["name"], document["version"], document["sdPublisher"]["name"]) == (name, name, name)
    else:
        assert (document["model_name"], document["privacy_bounds"]["subject_version"]) == (name, name)


@pytest.mark.parametrize("form", FORMS)
def test_same_request_gives_same_document(form: str) -> None:
    equal = {DOCUMENT_WRITERS[form](assess(FIXED[0])) for _ in range(2)}
    assert len(equal) == 1
    others = ({"mechanism": DPSGD, "context": {"delta": 1e-7}}, FIXED[1])
    assert len(equal | {DOCUMENT_WRITERS[form](assess(each)) for each in others}) == 3


@pytest.mark.parametrize("numbers", [SOME, thorough(range(COUNT))], ids=len)
def test_serial_number_identifies_the_result(numbers: Sequence[int]) -> None:
    found = [assessment(number) for number in numbers]
    serials = {written(each, CYCLONEDX)["serialNumber"]: each.digest for each in found}
    assert len(serials) == len({each.digest for each in found})
    earlier = assess(FIXED[0], "2020.01.01")
    assert written(earlier, CYCLONEDX)["serialNumber"] not in serials
    assert earlier.engine_version != ENGINE_VERSION


@pytest.mark.parametrize("number", NUMBERS)
def test_claims_match_verdicts_of_limits(number: int) -> None:
    response = assessment(number)
    claims = {each["bom-ref"]: each for each in written(response, CYCLONEDX)["declarations"]["claims"]}
    if response.decision is None:
        assert not any(name == "verdict" or name.startswith("limit-") for name in claims)
        return
    assert claims["verdict"]["predicate"] == response.decision.sentence
    if not is_bounded(response):
        assert not any(name.startswith("limit-") for name in claims)
        return
    for index, each in enumerate(response.decision.rulings):
        claim = claims[f"limit-{index}"]
        assert claim["predicate"] == each.meaning
        assert ("evidence" in claim) == (each.verdict == "met")
        assert ("counterEvidence" in claim) == (each.verdict == "violated")


@pytest.mark.parametrize("number", NUMBERS)
def test_attestations_support_or_refute_their_claims(number: int) -> None:
    response = assessment(number)
    declared = written(response, CYCLONEDX)["declarations"]
    given = {each.code: each for each in response.context.attested}
    assessors = {each["bom-ref"]: each["organization"]["name"] for each in declared.get("assessors", ())}
    seen: set[str] = set()
    for each in declared.get("attestations", ()):
        [(side, [name])] = each["map"][0].items()
        attested = given[name.removeprefix("assumption-")]
        seen.add(attested.code)
        assert side == ("claims" if attested.holds == "yes" else "counterClaims")
        assert assessors.get(each.get("assessor")) == attested.by
    assert seen == set(given) if is_bounded(response) else seen <= set(given)
