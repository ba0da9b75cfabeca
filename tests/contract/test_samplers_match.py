"""Samplers of DP-SGD: each failing test names the file that has to list the sampler."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from api_schemas.fields import shape_of_field
from api_schemas.training_runs import DpsgdMechanism
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.dpsgd_caveats import SAMPLERS, Sampling
from service.rendering.sentences.title import run_title
from tests.contract.pages import ROOT, page

PAGE = "service/web/explorer"
CAVEATS = "service/privacy/mechanisms/dpsgd_caveats.py"
CHOICES = shape_of_field(DpsgdMechanism.model_fields["sampling"]).choices


def test_schemas_and_core_have_same_samplers() -> None:
    assert get_args(Sampling) == CHOICES, f"edit Sampling in {CAVEATS} or api_schemas/training_runs.py"


def test_every_sampler_states_its_assumptions() -> None:
    assert tuple(SAMPLERS) == get_args(Sampling), f"edit SAMPLERS in {CAVEATS}"


@pytest.mark.parametrize("sampling", get_args(Sampling))
def test_every_sampler_has_elementary_steps(sampling: Sampling) -> None:
    run = DpSgd(noise_multiplier=1, sample_rate=0.5, steps=2, sampling=sampling, batch_size=1, dataset_size=2)
    try:
        assert run.elementary_steps()
    except AssertionError:
        pytest.fail("edit _step in service/privacy/mechanisms/dpsgd.py")


@pytest.mark.parametrize("sampling", CHOICES)
def test_every_sampler_has_a_title(sampling: str) -> None:
    sizes = {"noise_multiplier": 1.0, "batch_size": 1, "dataset_size": 2, "steps": 2}
    try:
        assert run_title(DpsgdMechanism.model_validate({"type": "dpsgd", "sampling": sampling, **sizes}))
    except KeyError:
        pytest.fail("edit _batches in service/rendering/sentences/title.py")


def test_guide_names_every_sampler() -> None:
    first = page("samplers").partition("|---|")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"(?m)^\| `(\w+)`", first)) == CHOICES, (
        "edit the table of samplers in docs/guide/samplers.md"
    )


@pytest.mark.parametrize("file", ["index.html", "form.js"])
def test_explorer_page_offers_every_sampler(file: str) -> None:
    words = set(re.findall(r"\w+", (ROOT / PAGE / file).read_text("utf-8")))
    assert set(CHOICES) <= words, f"edit {PAGE}/{file}"
