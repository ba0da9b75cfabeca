"""The schemas and the core speak of the same mechanisms, with the same fields and the same ranges."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from api_schemas.fields import shape_of, shape_of_field, type_of
from api_schemas.mechanisms import LARGEST_COMPONENTS, WEIGHT_SUM_TOLERANCE, MechanismSpec, MixtureComponent
from api_schemas.quantities import LARGEST_TOTAL_STEPS
from service.privacy.mechanisms import domain, mixture
from service.privacy.mechanisms.catalogue import MECHANISMS

SPECS = {type_of(model): model for model in shape_of(MechanismSpec).models}


def test_both_sides_know_the_same_types() -> None:
    assert set(SPECS) == set(MECHANISMS)
    assert all(mechanism.type == name for name, mechanism in MECHANISMS.items())


@pytest.mark.parametrize("kind", SPECS)
def test_fields_have_the_same_names(kind: str) -> None:
    ours = [field.name for field in dataclasses.fields(typing.cast("typing.Any", MECHANISMS[kind]))]
    assert sorted(ours) == sorted(set(SPECS[kind].model_fields) - {"type"})


@pytest.mark.parametrize("kind", SPECS)
def test_numbers_have_the_same_ranges(kind: str) -> None:
    ranges = {
        name: (shape.minimum, shape.maximum, shape.minimum_excluded, shape.maximum_excluded, shape.kind == "integer")
        for name, shape in ((name, shape_of_field(field)) for name, field in SPECS[kind].model_fields.items())
        if shape.kind in ("number", "integer")
    }
    domains = {
        name: (domain.low, domain.high, domain.open_low, False, domain.integer)
        for name, domain in domain.domains(MECHANISMS[kind]).items()
    }
    assert ranges == domains


def test_limits_of_trees_are_the_same() -> None:
    assert domain.TOTAL_STEPS.high == LARGEST_TOTAL_STEPS
    assert domain.COMPONENTS == LARGEST_COMPONENTS


def test_components_of_mixtures_are_the_same() -> None:
    ours = [field.name for field in dataclasses.fields(mixture.MixtureComponent)]
    assert ours == list(MixtureComponent.model_fields)
    shape = shape_of_field(MixtureComponent.model_fields["weight"])
    weight = domain.domains(mixture.MixtureComponent)["weight"]
    assert (shape.minimum, shape.maximum, shape.minimum_excluded) == (weight.low, weight.high, weight.open_low)
    assert float(mixture.WEIGHT_SUM_TOLERANCE) == WEIGHT_SUM_TOLERANCE
