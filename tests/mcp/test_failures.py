"""An unexpected failure of a tool is a fixed text for the assistant, and a logged traceback for the operator."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from mcp_types import CallToolRequestParams

from service.mcp import server
from service.privacy.errors import NumericalFailure
from service.settings import Settings


def context(error: Exception) -> Any:
    """Return the context of a call whose computation fails."""

    async def answer(*_: object) -> None:
        raise error

    runner = SimpleNamespace(answer=answer)
    services = SimpleNamespace(settings=Settings(redis_url=None), runner=runner, audit=None)
    return SimpleNamespace(lifespan_context=services, request=None, request_id=1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(RuntimeError("a secret"), "internal-error"), (NumericalFailure("a secret"), "numerical-failure")],
)
async def test_unexpected_failure_is_logged_under_its_request_id(
    error: Exception, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    params = CallToolRequestParams(name="bounds", arguments={})
    with caplog.at_level(logging.ERROR):
        result: Any = await server._call_tool(context(error), params)
    assert result.is_error
    assert result.structured_content["type"] == f"/problems/{kind}"
    assert "a secret" not in str(result)
    [record] = caplog.records
    assert result.structured_content["request_id"] in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error


async def test_problem_of_the_caller_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    params = CallToolRequestParams(name="bounds", arguments={"method": "x" * 2**20})
    with caplog.at_level(logging.ERROR):
        result: Any = await server._call_tool(context(RuntimeError("not reached")), params)
    assert result.structured_content["type"] == "/problems/body-too-large"
    assert caplog.records == []
