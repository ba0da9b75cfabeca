"""The schemas and the core have the same mechanisms, with the same fields and the same ranges."""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from api_schemas.fields import shape_of, shape_of_field, type_of
from api_schemas.imported import ImportedMechanism
from api_schemas.mechanisms import LARGEST_COMPONENTS, WEIGHT_SUM_TOLERANCE, MechanismSpec, MixtureComponent
from api_schemas.scalar_types import LARGEST_TOTAL_STEPS
from api_schemas.threat_models import ThreatModelSpec
from service.privacy.mechanisms import catalogue, domain, mixture
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.catalogue import THREAT_MODELS, threat_model_class
from service.privacy.threat_models.worst_case import WorstCase
from service.resources.parts import mechanism_of
from tests.privacy.cases import CASES, Case
from tests.privacy.relaxed_cases import FAMILIES, relaxed_cases

SPECS = {type_of(model): model for model in shape_of(MechanismSpec).models if model is not ImportedMechanism}
"""All types except the import of another library's description, which is replaced by one of these types when it is
read.
"""
ATTACKERS = {type_of(model): model for model in shape_of(ThreatModelSpec).models}


def file_of(kind: str) -> str:
    return MECHANISMS[kind].__module__.replace(".", "/") + ".py"


def both_files(kind: str) -> str:
    return f"edit {file_of(kind)} or {SPECS[kind].__name__} in api_schemas/mechanisms.py"


def test_schemas_and_core_have_same_types() -> None:
    missing = "edit service/privacy/mechanisms/catalogue.py or api_schemas/mechanisms.py"
    assert set(SPECS) == set(MECHANISMS), missing
    assert all(mechanism.type == name for name, mechanism in MECHANISMS.items())


def test_schemas_and_core_have_same_threat_models() -> None:
    missing = "edit service/privacy/threat_models/catalogue.py or api_schemas/threat_models.py"
    assert set(ATTACKERS) == set(THREAT_MODELS), missing
    for name in THREAT_MODELS:
        model = threat_model_class(name)
        assert model.type == name
        ours = [field.name for field in dataclasses.fields(typing.cast("typing.Any", model))]
        assert sorted(ours) == sorted(set(ATTACKERS[name].model_fields) - {"type"}), model.__module__


@pytest.mark.parametrize(
    ("room", "base", "listed"),
    [("mechanisms", AbstractMechanism, MECHANISMS), ("threat_models", AbstractThreatModel, THREAT_MODELS)],
)
def test_catalogue_lists_all_classes_of_its_package(
    room: str, base: type[AbstractMechanism | AbstractThreatModel], listed: Mapping[str, object]
) -> None:
    """The catalogue of mechanisms lists all classes of its package, except steps that the core alone builds.

    Such a step has the type of the mechanism that makes it.
    """
    folder = Path(catalogue.__file__).parents[1] / room
    modules = [import_module(f"service.privacy.{room}.{path.stem}") for path in sorted(folder.glob("*.py"))]
    defined = {
        each
        for module in modules
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, base) and not inspect.isabstract(each) and each.__module__ == module.__name__
    }
    forgotten = [each for each in defined if each.type not in listed]
    assert forgotten == [], f"edit service/privacy/{room}/catalogue.py"


@pytest.mark.parametrize("kind", MECHANISMS)
def test_mechanism_states_its_assumptions(kind: str) -> None:
    mechanism = MECHANISMS[kind]
    file = file_of(kind)
    has_premises = mechanism.type_premises or mechanism.premises is not AbstractMechanism.premises
    assert has_premises, f"edit {file}: it says nothing of what answers rest on"
    assert kind in {case.spec["type"] for case in CASES}, "edit tests/privacy/cases.py: it has no row"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_schema_and_core_build_same_mechanism(case: Case) -> None:
    adapter: TypeAdapter[MechanismSpec] = TypeAdapter(MechanismSpec)
    spec = adapter.validate_json(json.dumps(case.spec))
    assert mechanism_of(spec) == case.mechanism
    assert adapter.validate_json(spec.model_dump_json()) == spec


def test_every_threat_model_has_cases() -> None:
    drawn = {case.model.type for case in relaxed_cases(len(FAMILIES), 1, seed=0)}
    assert drawn | {WorstCase.type} == set(THREAT_MODELS), "edit FAMILIES in tests/privacy/relaxed_cases.py"


@pytest.mark.parametrize("kind", SPECS)
def test_schemas_and_core_have_same_field_names(kind: str) -> None:
    assert sorted(domain.sent_fields(MECHANISMS[kind])) == sorted(set(SPECS[kind].model_fields) - {"type"}), both_files(
        kind
    )


@pytest.mark.parametrize("kind", SPECS)
def test_schemas_and_core_have_same_number_ranges(kind: str) -> None:
    declared = domain.domains(MECHANISMS[kind])
    shapes = {name: shape_of_field(field) for name, field in SPECS[kind].model_fields.items()}
    # A list of numbers has the domain of its items.
    items = {name: shape_of(shape.item) for name, shape in shapes.items() if shape.kind == "list" and name in declared}
    ranges = {
        name: (shape.minimum, shape.maximum, shape.minimum_excluded, shape.maximum_excluded, shape.kind == "integer")
        for name, shape in (shapes | items).items()
        if shape.kind in ("number", "integer")
    }
    domains = {
        name: (domain.low, domain.high, domain.open_low, False, domain.integer) for name, domain in declared.items()
    }
    assert ranges == domains, both_files(kind)


def test_schemas_and_core_have_same_tree_limits() -> None:
    assert domain.TOTAL_STEPS.high == LARGEST_TOTAL_STEPS
    assert domain.COMPONENTS == LARGEST_COMPONENTS


def test_schemas_and_core_have_same_mixture_components() -> None:
    ours = [field.name for field in dataclasses.fields(mixture.WeightedMechanism)]
    assert ours == list(MixtureComponent.model_fields)
    shape = shape_of_field(MixtureComponent.model_fields["weight"])
    weight = domain.domains(mixture.WeightedMechanism)["weight"]
    assert (shape.minimum, shape.maximum, shape.minimum_excluded) == (weight.low, weight.high, weight.open_low)
    assert float(mixture.WEIGHT_SUM_TOLERANCE) == WEIGHT_SUM_TOLERANCE
