"""`GET /v1/sources` lists the software and its sources, as JSON and as BibTeX."""

from __future__ import annotations

from starlette.testclient import TestClient

from service.bibliography import SOURCES

BIBTEX = "application/x-bibtex"


def test_json_lists_software_and_all_sources(client: TestClient) -> None:
    found = client.get("/v1/sources").json()["sources"]
    assert [entry["key"] for entry in found] == ["privacy-bounds", *(source.key for source in SOURCES)]
    paths = {each["path"] for each in client.get("/v1/catalogue").json()["resources"]}
    assert set(found[0]["used_by"]) == paths
    for entry in found:
        assert entry["bibtex"].startswith("@")
        assert set(entry["used_by"]) <= paths
        assert entry["used_by"]


def test_bibtex_has_the_entries_of_the_json(client: TestClient) -> None:
    answer = client.get("/v1/sources", headers={"Accept": BIBTEX})
    assert answer.headers["content-type"] == f"{BIBTEX}; charset=utf-8"
    assert answer.text == "\n".join(entry["bibtex"] for entry in client.get("/v1/sources").json()["sources"])
    assert "Erlingsson, Úlfar" in answer.text


def test_other_media_types_and_methods_are_refused(client: TestClient) -> None:
    refused = client.get("/v1/sources", headers={"Accept": "application/pdf"})
    assert refused.status_code == 406
    assert refused.json()["supported"] == ["application/json", BIBTEX]
    assert client.post("/v1/sources").headers["allow"] == "GET, HEAD"
    assert client.head("/v1/sources", headers={"Accept": BIBTEX}).headers["content-type"].startswith(BIBTEX)


def test_sources_of_an_answer_are_listed_under_their_names(client: TestClient) -> None:
    sent = {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "questions": [{"type": "gdp_mu"}]}
    [answer] = client.post("/v1/bounds", json=sent).json()["answers"]
    listed = client.get("/v1/sources").json()["sources"]
    [gdp] = [entry for entry in listed if any(name in answer["source"] for name in entry["cited_as"])]
    assert gdp["key"] == "dong2022gaussian"
    assert "/v1/bounds" in gdp["used_by"]
