"""File names of reports: a header that browsers read, with letters and digits only, whatever the subject is called."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

RUN = {"type": "gaussian", "noise_multiplier": 2.0}


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        (None, "privacy-report.html"),
        ({"name": "next-word model", "version": "2.1.0"}, "privacy-report-next-word-model-2-1-0.html"),
        ({"name": '"; filename=evil.exe \\ <b>'}, "privacy-report-filename-evil-exe-b.html"),
    ],
)
def test_report_file_name_is_that_of_subject(client: TestClient, subject: dict[str, str] | None, name: str) -> None:
    context = {"delta": 1e-5} | ({} if subject is None else {"subject": subject})
    sent = {"mechanism": RUN, "context": context}
    found = client.post("/v1/assessments", json=sent, headers={"Accept": "text/html"})
    assert found.status_code == 200
    assert found.headers["content-disposition"] == f'inline; filename="{name}"'
    assert re.search(r"<h1>.*</h1>", found.text)
    assert "content-disposition" not in client.post("/v1/assessments", json=sent).headers
