"""Arguments of `privacy-bounds operate jobs` that are not valid text."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.command.operate import OperateArguments, run_operate
from service.jobs.local.store import SqliteStore


@pytest.mark.parametrize("action", ["show", "cancel", "purge", "list"])
def test_argument_that_is_not_text_is_one_sentence(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(tmp_path))
    store = SqliteStore(tmp_path)
    store.list(None, 1, None)
    store.close()
    odd = "\udcff"
    wanted = OperateArguments(
        action=action, subject=odd, requester=odd, ended=action == "list", limit=5, cursor=None, as_json=False
    )
    assert run_operate(wanted) == 2
    assert capsys.readouterr().err == "privacy-bounds: use only ASCII characters in ids and requesters.\n"


def test_cursor_that_would_be_ignored_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = OperateArguments(
        action="list", subject=None, requester=None, ended=False, limit=5, cursor="7", as_json=False
    )
    assert run_operate(wanted) == 2
    assert capsys.readouterr().err.startswith("privacy-bounds: use --cursor only with --ended")
