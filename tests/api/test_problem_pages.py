"""The type of every problem is the address of a page that explains it."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from starlette.testclient import TestClient

from api_schemas.problems import ProblemType
from service.api.problem_texts import TEXTS
from service.problems import ALL_PROBLEMS
from tests.contract.test_language import LONGEST_SENTENCE, sentences

TYPES: tuple[str, ...] = get_args(get_args(ProblemType)[0])


def test_every_type_has_a_text() -> None:
    assert set(TEXTS) == set(TYPES)


@pytest.mark.parametrize("kind", TYPES)
def test_type_of_a_problem_is_the_address_of_its_page(client: TestClient, kind: str) -> None:
    answer = client.get(kind, headers={"Accept": "text/html"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    text = answer.text
    for each in ALL_PROBLEMS:
        if each.type == kind:
            assert f"<h1>{each.title}</h1>" in text
            assert str(each.status) in text
    assert "How to fix it" in text
    assert kind in client.get("/problems").text


@pytest.mark.parametrize("kind", TEXTS)
def test_links_and_paths_on_a_page_exist(client: TestClient, kind: str) -> None:
    for link in set(re.findall(r'href="([^"#]*)"', client.get(kind).text)) - {"/guide/"}:
        assert client.get(link).status_code == 200, link
    paths = {path.partition("{")[0] for path in client.get("/openapi.json").json()["paths"]}
    for path in re.findall(r"`(?:GET|POST) (/[^` ]*)`", TEXTS[kind].meaning + " ".join(TEXTS[kind].remedies)):
        assert path in paths, path


@pytest.mark.parametrize("kind", TEXTS)
def test_sentences_are_short(kind: str) -> None:
    text = TEXTS[kind]
    for sentence in sentences("\n\n".join((text.meaning, *text.remedies))):
        assert len(sentence.split()) <= LONGEST_SENTENCE


@pytest.mark.parametrize("name", ["nothing", "Not-found", "x" * 65, "not-found/", "%2e%2e"])
def test_unknown_type_is_not_found(client: TestClient, name: str) -> None:
    answer = client.get(f"/problems/{name}")
    assert answer.status_code == (422 if len(name) > 64 else 404)


def test_problem_in_an_answer_names_its_page(client: TestClient) -> None:
    problem = client.get("/nowhere").json()
    assert problem["title"] in client.get(problem["type"]).text
