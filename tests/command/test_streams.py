"""Standard streams that the caller has closed or that fail: one sentence at most, and no exit code of an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

from tests.slow_marker import sample_of, thorough
from tests.timeouts import TEST_TIMEOUT

EPSILON: Final = "epsilon --noise 1.1 --rate 0.004 --steps 3000 --delta 1e-5"
COMMAND: Final = f"{sys.executable} -m service.cli"
READ_AS: Final = "privacy-bounds: The run was read as dpsgd"
FULL: Final = "privacy-bounds: cannot write the output: No space left on device\n"
NO_JSON: Final = "privacy-bounds: standard input is not JSON.\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        thorough(f"{EPSILON} --value >&-", 0, ""),
        thorough(f"{EPSILON} 2>&-", 0, ""),
        thorough(f"{EPSILON} <&- >&- 2>&-", 0, ""),
        (f"{EPSILON} > /dev/full", 2, FULL),
        thorough("--version > /dev/full", 2, FULL),
        ("epsilon --run - --delta 1e-5 <&-", 2, NO_JSON),
        ("mcp <&- >&-", 0, ""),
    ],
)
def test_closed_and_full_streams(words: str, code: int, sentence: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f"{COMMAND} {words}"], capture_output=True, text=True, check=False, timeout=TEST_TIMEOUT
    )
    written = "".join(line for line in ended.stderr.splitlines(keepends=True) if not line.startswith(READ_AS))
    assert (ended.returncode, written) == (code, sentence)


def test_reader_that_leaves_is_no_failed_policy() -> None:
    """A reader that closes the output early is no failed policy.

    Nothing is printed, and the exit code is not the 1 of a policy that is not met.
    """
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        ["sh", "-c", f"{COMMAND} {EPSILON}"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=TEST_TIMEOUT,
    )
    os.close(writing)
    assert ended.returncode == 2
    assert ended.stderr.startswith(READ_AS)
    assert ended.stderr.count("\n") == 1


@sample_of(2)
@pytest.mark.parametrize("text", ["", "{", "\x00", "[" * 100_000])
def test_input_that_is_no_json_is_named(text: str) -> None:
    command = [sys.executable, "-m", "service.cli", "epsilon", "--run", "-", "--delta", "1e-5"]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=TEST_TIMEOUT)
    assert (ended.returncode, ended.stderr) == (2, NO_JSON)


@pytest.mark.parametrize("text", ["{}", "null", *map(thorough, ("[]", "0", '""', "[[]]"))])
def test_json_that_is_no_run_is_a_problem(text: str) -> None:
    command = [sys.executable, "-m", "service.cli", "epsilon", "--run", "-", "--delta", "1e-5"]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=TEST_TIMEOUT)
    assert ended.returncode == 2
    assert "/mechanism" in ended.stderr or text in ("null", '""')
