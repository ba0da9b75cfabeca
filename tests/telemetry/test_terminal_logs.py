"""Logs are lines for people on a terminal, and JSON everywhere else."""

from __future__ import annotations

import io
import json
import random
import re
from typing import Any

import pytest

from service.telemetry.logs import make_logger


class Terminal:
    """Standard error that is a terminal."""

    def __init__(self, is_terminal: bool) -> None:
        self.buffer = io.BytesIO()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    @property
    def text(self) -> str:
        """Written text without colours."""
        return re.sub("\x1b\\[[0-9;]*m", "", self.buffer.getvalue().decode())


def logged(is_terminal: bool, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> str:
    terminal = Terminal(is_terminal)
    monkeypatch.setattr("sys.stderr", terminal)
    make_logger("info").info("request", **fields)
    return terminal.text


def test_terminal_gets_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = logged(True, monkeypatch, path="/v1/bounds", status=200, odd="\ud800\n")
    assert re.fullmatch(r"\d\d:\d\d:\d\d \[info\] request path=/v1/bounds status=200 odd=.*\n", text)


def test_file_gets_json(monkeypatch: pytest.MonkeyPatch) -> None:
    event = json.loads(logged(False, monkeypatch, path="/v1/bounds"))
    assert (event["event"], event["path"], event["level"]) == ("request", "/v1/bounds", "info")


def test_traceback_on_a_terminal_shows_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "body of " + "a request"
    try:
        raise ValueError("reason")
    except ValueError as error:
        text = logged(True, monkeypatch, exc_info=error)
    assert "ValueError: reason" in text
    assert secret not in text


@pytest.mark.parametrize("seed", range(8))
def test_no_text_of_a_client_controls_the_terminal(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No text of a client controls the terminal.

    Random characters in fields, lists, keys and messages of exceptions leave no control character but line ends.
    """
    drawn = random.Random(seed)
    rare = [*map(chr, (*range(0x20), *range(0x7F, 0xA0), 0xAD, 0x200E, 0x2028, 0x202E, 0xFEFF, 0xD800)), "[2J", "]0;a"]
    hostile = ["".join(drawn.choices(rare, k=40)).replace("\n", "") for _ in range(4)]
    try:
        raise ValueError(hostile[0])
    except ValueError as error:
        error.add_note(hostile[1])
        text = logged(True, monkeypatch, path=hostile[2], listed=[hostile[3]], keyed={hostile[0]: 1}, exc_info=error)
    assert "Traceback" in text
    assert [each for each in text if not each.isprintable() and each != "\n"] == []
