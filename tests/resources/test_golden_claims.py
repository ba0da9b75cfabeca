"""Claims of libraries and papers about mechanisms, each with its verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api_schemas.claims import CheckedClaim, ClaimsResponse
from service.resources.claims.checking import CLAIMS
from tests.resources.golden_claims import LIBRARIES, PAPERS, Golden

NAMED = "sha256:" + "0" * 64


def check_claims(body: dict[str, Any]) -> ClaimsResponse:
    request = CLAIMS.request_type.model_validate_json(json.dumps(body))
    return CLAIMS.response(request, NAMED, "2026.01.01")


def verdict_of(golden: Golden) -> CheckedClaim:
    claim = {
        "question": golden.question,
        "value": golden.value,
        "relative_tolerance": golden.tolerance,
        "reads": golden.reads,
    }
    model = {} if golden.threat_model is None else {"threat_model": golden.threat_model}
    [found] = check_claims({"mechanism": golden.mechanism, "claims": [claim], **model}).claims
    return found


@pytest.mark.parametrize("golden", [*LIBRARIES, *PAPERS], ids=lambda golden: golden.source)
def test_stated_claim_has_expected_verdict(golden: Golden) -> None:
    found = verdict_of(golden)
    assert found.verdict == golden.verdict
    assert (found.by is None) is (golden.verdict == "consistent")
    assert (found.attack is not None) is (golden.verdict == "unsafe")
    assert found.holds == {"unsafe": "no", "loose": "yes"}.get(golden.verdict, found.holds)
    if golden.ratio is not None:
        assert found.by is not None
        assert golden.ratio <= (found.by.ratio or 0.0) <= 1.001 * golden.ratio
    if found.attack is not None:
        assert found.attack.power is not None
        assert found.attack.claimed_power is not None
        assert (found.attack.power["lower"] or 0.0) > found.attack.claimed_power
