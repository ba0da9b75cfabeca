"""Quarantined results: refused at once, in other processes, after a restart, and by instances that share Redis."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from service.execution import quarantine as module
from service.execution.errors import ResultQuarantined
from service.execution.memory_cache import InMemoryResultCache
from service.execution.quarantine import MARKER, ResultQuarantine

ONE, TWO = ("sha256:" + digit * 64 for digit in "12")


def test_a_quarantined_digest_is_refused_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "new" / "quarantined"
    quarantine = ResultQuarantine(path)
    quarantine.check(ONE)
    quarantine.add(ONE, "epsilon: two engines")
    for each in (quarantine, ResultQuarantine(path)):
        with pytest.raises(ResultQuarantined):
            each.check(ONE)
        each.check(TWO)
        assert len(each) == 1
    assert "two engines" in path.read_text()


def test_another_process_sees_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELOAD_SECONDS", 0.0)
    first, second = ResultQuarantine(tmp_path / "file"), ResultQuarantine(tmp_path / "file")
    assert ONE not in second
    first.add(ONE, "")
    second.add(TWO, "")
    assert ONE in second
    assert TWO in first
    assert len(first) == len(second) == 2


@pytest.mark.parametrize("damage", [b"no json\n", b"{}\n", b"[1]\n", b'{"digest": [1]}\n', b"\xff\xfe\n"])
def test_a_damaged_line_hides_no_other(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(damage)
    ResultQuarantine(path).add(ONE, "")
    assert ONE in ResultQuarantine(path)


def test_an_unfinished_line_is_read_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELOAD_SECONDS", 0.0)
    path = tmp_path / "file"
    line = f'{{"digest": "{ONE}"}}\n'
    path.write_text(line[:30])
    quarantine = ResultQuarantine(path)
    assert ONE not in quarantine
    path.write_text(line)
    assert ONE in quarantine


def test_a_line_that_a_full_disk_has_cut_hides_no_later_one(tmp_path: Path) -> None:
    """A line of the quarantine file that a full disk has cut hides no later line.

    The digest of the cut line is known to the process that wrote it, and the next digest to all processes.
    """
    path = tmp_path / "file"
    quarantine = ResultQuarantine(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, limits[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            quarantine.add(ONE, "")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.stat().st_size == 40
    quarantine.add(TWO, "")
    assert ONE in quarantine
    assert TWO in ResultQuarantine(path)


def test_the_marker_of_another_instance_quarantines() -> None:
    quarantine = ResultQuarantine()
    quarantine.check(ONE, b'{"answers":[]}')
    with pytest.raises(ResultQuarantined):
        quarantine.check(ONE, MARKER)
    assert ONE in quarantine


def test_the_memory_cache_forgets_one_result() -> None:
    cache = InMemoryResultCache(4, 1000)
    cache.put("bounds", ONE, b"one")
    cache.put("bounds", TWO, b"two")
    cache.remove("bounds", ONE)
    cache.remove("bounds", ONE)
    assert (cache.lookup("bounds", ONE), cache.lookup("bounds", TWO), cache.size_bytes) == (None, b"two", 3)


def test_an_unreadable_file_is_reported_once_and_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreadable file of quarantined results is reported once, and read when it is readable.

    A directory stands in the place of the file. Known digests stay refused, and all others are served.
    """
    monkeypatch.setattr(module, "RELOAD_SECONDS", 0.0)
    path, reported = tmp_path / "file", list[str]()
    path.mkdir()
    quarantine = ResultQuarantine(path, reported.append)
    for _ in range(3):
        quarantine.check(ONE)
    for _ in range(2):
        with pytest.raises(ResultQuarantined):
            quarantine.check(TWO, MARKER)
    assert reported == [quarantine.failure] == [f"{path}: Is a directory"]
    path.rmdir()
    ResultQuarantine(path).add(ONE, "")
    assert ONE in quarantine
    assert TWO in quarantine
    assert reported[1:] == [quarantine.failure] == [""]


def test_a_shorter_file_in_the_place_of_the_earlier_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RELOAD_SECONDS", 0.0)
    path = tmp_path / "file"
    ResultQuarantine(path).add(ONE, "a reason that makes the first file longer")
    quarantine = ResultQuarantine(path)
    assert ONE in quarantine
    path.unlink()
    ResultQuarantine(path).add(TWO, "")
    assert TWO in quarantine
    assert ONE in quarantine
