"""Extract the decision about a policy from a stored assessment, without the other members of the assessment."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json, to_json


def decision_in(body: bytes, name: str) -> bytes | None:
    """Return the JSON body of a StoredDecision from the assessment `body`, or None without a decision named `name`.

    The members are copied without validation, since an earlier engine version may have stored the assessment.
    """
    assessment: dict[str, Any] = from_json(body)
    decided, context = assessment["decision"], assessment["context"]
    if decided is None or decided["id"] != name:
        return None
    found = {"decision": decided, "subject": context.get("subject"), "date": context.get("date")}
    stated = {key: value for key, value in found.items() if value is not None}
    return to_json(stated | {"result": assessment["digest"], "engine_version": assessment["engine_version"]})
