"""`privacy-bounds cite` prints BibTeX of the software and of its sources."""

from __future__ import annotations

import pytest

from service.bibliography import SOURCES
from service.command.main import main


def test_software_is_cited_without_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("@software{privacy-bounds,\n")
    assert printed.count("@") == 1


def test_chosen_sources_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "zhu2022optimal", "dong2022gaussian"]) == 0
    printed = capsys.readouterr().out
    assert 0 == printed.index("@inproceedings{zhu2022optimal") < printed.index("@article{dong2022gaussian")


def test_all_sources_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "--all"]) == 0
    assert capsys.readouterr().out.count("\n}\n") == len(SOURCES) + 1
    assert main(["cite", "--list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(SOURCES) + 1


def test_unknown_key_is_refused_with_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cite", "nobody1999"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "nobody1999: unknown key. List the keys with: privacy-bounds cite --list" in shown.err
