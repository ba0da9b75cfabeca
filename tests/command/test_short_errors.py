"""Wrong arguments give two lines: what is wrong, with the nearest known word, and which command prints the help."""

from __future__ import annotations

import pytest

from service.command import main as cli
from service.command.questions import QUESTIONS
from service.resources.abstract import command_of
from service.resources.catalogue import RESOURCES

OTHERS = ("serve", "worker", "mcp", "jobs", "operate", "completion", "cite", "figure", "plot")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the lines of the error about wrong arguments."""
    with pytest.raises(SystemExit) as caught:
        cli.main(list(words))
    assert caught.value.code == 2
    written = capsys.readouterr()
    assert written.out == ""
    return written.err.splitlines()


@pytest.mark.parametrize("command", [*QUESTIONS, *map(command_of, RESOURCES), *OTHERS])
def test_every_command_names_an_unknown_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, command, "--zzz=1") == [
        f"privacy-bounds {command}: unknown option --zzz.",
        f"Help: privacy-bounds {command} --help",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("epsilon", "--nose", "1"), "unknown option --nose. Did you mean --noise?"),
        (("epsilon", "--noise-multiplier", "1"), "unknown option --noise-multiplier. Did you mean --noise?"),
        (("serve", "--prot", "1"), "unknown option --prot. Did you mean --port?"),
        (("epsilon", "--noise", "1"), "the following arguments are required: --delta."),
        (("epsilon", "--delta", "x"), "argument --delta: use a finite number, not 'x'."),
        (("epsilon", "-x"), "unknown option -x."),
    ],
)
def test_nearest_option_is_suggested(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, *words)[0] == f"privacy-bounds {words[0]}: {message}"


def test_nearest_command_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "epsilo") == [
        "privacy-bounds: unknown command epsilo. Did you mean epsilon?",
        "Help: privacy-bounds --help",
    ]


def test_unknown_option_is_shown_briefly_and_printably(capsys: pytest.CaptureFixture[str]) -> None:
    first, _ = refused(capsys, "epsilon", "--\x1b[31m" + "z" * 10_000)
    assert len(first) < 150
    assert first.isprintable()


def test_numbers_abbreviations_and_dashes_are_no_unknown_options(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("delta", "--noise", "1", "--rate", "0.1", "--st", "5", "--epsilon", "-1", "--run", "-")
    assert cli.main(list(words)) == cli.PROBLEM_EXIT_CODE
    assert "send either --run or" in capsys.readouterr().err


def test_nearest_figure_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figure", "glrt-figure-33", "--output", "a.svg"]) == cli.PROBLEM_EXIT_CODE
    assert "Did you mean glrt-figure-3?" in capsys.readouterr().err
