"""Archives of every malformed shape are refused in one sentence: backups, and arrays of an upload."""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.backup.archive import FORMAT, MANIFEST, VERSION, BackupError, extract_archive
from service.resources.array_archive import ArchiveError, ArrayArchive

KEYS = b'{"version":1,"keys":[]}' * 20
DESCRIBED = {"bytes": len(KEYS), "sha256": hashlib.sha256(KEYS).hexdigest()}
WHOLE = {"format": FORMAT, "version": VERSION, "files": {"keys.json": DESCRIBED}}
METHODS = st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
JSON = st.recursive(
    PLAIN, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=9), below, max_size=3)
)
MANIFESTS = st.fixed_dictionaries(
    {},
    optional={
        "format": st.just(FORMAT) | JSON,
        "version": st.just(VERSION) | JSON,
        "files": st.dictionaries(
            st.sampled_from(["keys.json", "jobs.sqlite", "../keys.json", ""]),
            JSON
            | st.fixed_dictionaries({"bytes": st.integers() | JSON, "sha256": st.just(DESCRIBED["sha256"]) | JSON}),
            max_size=2,
        ),
    },
)
FLIPS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=4)


def archived(members: dict[str, bytes], method: int) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def flipped(body: bytes, flips: list[tuple[float, int]]) -> bytes:
    changed = bytearray(body)
    for share, mask in flips:
        changed[int(share * len(changed))] ^= mask
    return bytes(changed)


def extracted(body: bytes) -> dict[str, bytes] | None:
    """Return the extracted files of a backup archive, or None if the archive was refused in one sentence."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "folder"
        folder.mkdir()
        path = Path(place) / "archive"
        path.write_bytes(body)
        try:
            extract_archive(path, folder)
        except BackupError as error:
            refused = str(error)
        else:
            refused = ""
        if refused:
            assert "\n" not in refused
            return None
        assert {each.name for each in Path(place).iterdir()} == {"folder", "archive"}
        return {each.name: each.read_bytes() for each in folder.iterdir()}


@given(method=METHODS, flips=FLIPS)
@settings(max_examples=80)
def test_damaged_backup_is_refused_or_whole(method: int, flips: list[tuple[float, int]]) -> None:
    members = {MANIFEST: json.dumps(WHOLE).encode(), "keys.json": KEYS}
    assert extracted(flipped(archived(members, method), flips)) in (None, {"keys.json": KEYS})


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_backup_with_other_compression_is_refused(method: int) -> None:
    """A backup whose members have another compression is refused.

    Damage of such a member raises errors of another library, and it may need much memory.
    """
    body = archived({MANIFEST: json.dumps(WHOLE).encode(), "keys.json": KEYS}, method)
    assert extracted(body) is None


@given(manifest=MANIFESTS | JSON)
@example(WHOLE | {"files": {"keys.json": DESCRIBED | {"bytes": 10**30}}})
@example(WHOLE | {"files": {"keys.json": DESCRIBED | {"bytes": True}}})
@settings(max_examples=80)
def test_backup_with_other_manifest_is_refused(manifest: Any) -> None:
    body = archived({MANIFEST: json.dumps(manifest).encode(), "keys.json": KEYS}, zipfile.ZIP_STORED)
    assert extracted(body) in (None, {"keys.json": KEYS})


def arrays(body: bytes) -> dict[str, Any] | None:
    """Return the arrays of an archive, or None if the archive was refused in one sentence."""
    refused = ""
    try:
        archive = ArrayArchive(body, 2**16)
        return {name: archive.read(name) for name in archive.headers}
    except ArchiveError as error:
        refused = error.sentence
    assert refused.endswith(".")
    return None


@given(body=st.binary(max_size=200) | st.binary(max_size=100).map(lambda start: start + b"PK\x05\x06" + bytes(18)))
@settings(max_examples=80)
def test_bytes_that_are_no_archive_are_refused(body: bytes) -> None:
    assert extracted(body) is None
    assert arrays(body) in (None, {})


@given(method=METHODS, flips=FLIPS)
@settings(max_examples=80)
def test_damaged_arrays_are_refused_or_whole(method: int, flips: list[tuple[float, int]]) -> None:
    sent, written = np.arange(12.0).reshape(3, 4), io.BytesIO()
    np.save(written, sent)
    body = flipped(archived({"a.npy": written.getvalue()}, method), flips)
    found = arrays(body)
    assert found is None or all(np.array_equal(array, sent) for array in found.values())
