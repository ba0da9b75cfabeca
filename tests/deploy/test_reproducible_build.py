"""Equal sources give equal bytes of wheel and sdist, whatever the folder, umask, locale, time zone and dates."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.packaging.wheel_backend import moment, relocate, source_archive
from tests.contract.test_packaging import PACKAGES, ROOT

FILES: Final = {
    "service/__init__.py": "",
    "service/main.py": "from api_schemas.base import Base\n",
    "api_schemas/__init__.py": "",
    "api_schemas/base.py": "class Base: ...\n",
    "privacy_bounds/__init__.py": '__all__ = ["Ünïcode"]\n',
    "p-1.dist-info/METADATA": "Name: p\n",
    "p-1.dist-info/top_level.txt": "service\n",
    "p-1.dist-info/RECORD": "",
}
TREES: Final[list[dict[str, Any]]] = [
    {"folder": "a", "umask": 0o022, "changed": {}, "written": 1.7e9},
    {"folder": "b c/ä", "umask": 0o077, "changed": {"LC_ALL": "C", "TZ": "Asia/Tokyo"}, "written": 1.1e9},
]


def written_wheel(path: Path, seed: int) -> Path:
    """Write a wheel with the entries in random order, each with a random date, mode and compression."""
    drawn = random.Random(seed)
    with zipfile.ZipFile(path, "w") as archive:
        for name in drawn.sample(list(FILES), len(FILES)):
            entry = zipfile.ZipInfo(name, (drawn.randint(1980, 2100), 1, 1, 0, 0, 0))
            entry.external_attr = drawn.choice([0o644, 0o600, 0o755]) << 16
            entry.compress_type = drawn.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            archive.writestr(entry, FILES[name])
    return path


def test_wheel_depends_on_names_and_content_only(tmp_path: Path) -> None:
    wheels = [written_wheel(tmp_path / f"{seed}.whl", seed) for seed in range(20)]
    assert len({each.read_bytes() for each in wheels}) == len(wheels)
    for wheel in wheels:
        relocate(wheel)
    assert len({each.read_bytes() for each in wheels}) == 1


def test_moment_is_that_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, expected in (("1700000000", 1700000000), ("", 315532800), ("5", 315532800)):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
        assert moment() == expected


def test_source_archive_has_neither_users_nor_dates_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    with tarfile.open(fileobj=io.BytesIO(source_archive({"p/b": b"2", "p/a": b"1"}))) as packed:
        entries = packed.getmembers()
    assert [(each.name, each.uid, each.gid, each.uname, each.gname, each.mtime, each.mode) for each in entries] == [
        (name, 0, 0, "", "", 315532800, 0o644) for name in ("p/a", "p/b")
    ]


def built(place: Path, tree: dict[str, Any], source: Path) -> dict[str, bytes]:
    """Build wheel and sdist at `place` from a copy of the files in `source`, and return their bytes by file name."""
    folder = place / tree["folder"]
    for path in sorted(source.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o666 & ~tree["umask"])
            os.utime(target, (tree["written"], tree["written"]))
    # An earlier build left a file that is no longer in the sources.
    (folder / "build/lib/service").mkdir(parents=True)
    (folder / "build/lib/service/removed.py").touch()
    target = place / f"built {tree['folder'][0]}"
    target.mkdir()
    build = f"import wheel_backend as b; b.build_sdist({str(target)!r}); b.build_wheel({str(target)!r})"
    changed = os.environ | {"PYTHONPATH": str(folder / "deploy/packaging"), "SOURCE_DATE_EPOCH": "1700000000"}
    ended = subprocess.run(
        [sys.executable, "-c", build],
        cwd=folder,
        env=changed | tree["changed"],
        umask=tree["umask"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return {path.name: path.read_bytes() for path in target.iterdir()}


@pytest.mark.thorough
def test_two_builds_have_equal_bytes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, source)
    for package in (*PACKAGES, "deploy/packaging"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    first, second = (built(tmp_path, tree, source) for tree in TREES)
    assert sorted(first) == sorted(second)
    assert first == second
    (wheel,) = (name for name in first if name.endswith(".whl"))
    with zipfile.ZipFile(io.BytesIO(first[wheel])) as archive:
        assert {each.date_time for each in archive.infolist()} == {time.gmtime(1700000000)[:6]}
        assert not any("removed.py" in name for name in archive.namelist())
    (sdist,) = (name for name in first if name.endswith(".tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(first[sdist])) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    unpacked = tmp_path / "unpacked" / sdist.removesuffix(".tar.gz")
    assert built(tmp_path / "again", TREES[0], unpacked)[wheel] == first[wheel]
