"""Archives of arrays: valid ones are read; large, broken or pickled ones are rejected."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pytest

from service.resources.array_archive import ArchiveError, ArrayArchive
from tests.resources.archives import archived

LIMIT = 10_000


def entry(content: bytes, name: str = "a.npy", kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def header(shape: str, dtype: str = "<f8") -> bytes:
    """Return the header of an array of this shape, without its numbers."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "f4", "i8", "u1", "?"])
def test_archive_of_numpy_is_read(compressed: bool, dtype: str) -> None:
    sent = np.arange(12).reshape(3, 4).astype(dtype)
    archive = ArrayArchive(archived({"a": sent, "b": np.asfortranarray(sent)}, compressed=compressed), LIMIT)
    assert {name: head.shape for name, head in archive.headers.items()} == {"a": (3, 4), "b": (3, 4)}
    for name in "ab":
        assert np.array_equal(archive.read(name), sent)


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "text": b"PK and then some text that is no archive at all",
    "cut off": archived({"a": np.zeros(3)})[:-1],
    "something behind it": archived({"a": np.zeros(3)}) + b"x",
    "another file": entry(b"text", "readme.txt"),
    "no array": entry(b"text"),
    "pickled objects": archived({"a": np.array([{"a": 1}, None], dtype=object)}),
    "pickled by hand": entry(header("(1,)", "|O") + b"\x80\x04."),
    "numbers of 16 bytes": archived({"a": np.zeros(2, dtype=np.complex128)}),
    "records": archived({"a": np.zeros(2, dtype="f4,f4")}),
    "long text": archived({"a": np.array("x" * 100)}),
    "fewer numbers than it says": entry(header("(1000,)") + bytes(8)),
    "more numbers than it says": entry(header("(1,)") + bytes(80)),
    "negative shape": entry(header("(-1, -1)") + bytes(8)),
    "a header that is code": entry(header("__import__('os')") + bytes(8)),
    "a header without end": entry(b"\x93NUMPY\x01\x00" + struct.pack("<H", 60_000) + b"{" * 60_000),
    "text without width": entry(header("(8, 3)", "|S0")),
    "bytes without width": entry(header("(8, 3)", "|V0")),
    "a record without fields": entry(header("(8, 3)").replace(b"'<f8'", b"[]   ")),
    "other compression": entry(header("(1,)") + bytes(8), kind=zipfile.ZIP_LZMA),
    "too large": archived({"a": np.zeros(LIMIT // 8 + 1)}),
    "too large as doubles": archived({"a": np.zeros(LIMIT // 8 + 1, dtype=np.int8)}),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_invalid_archive_is_rejected(body: bytes) -> None:
    with pytest.raises(ArchiveError) as caught:
        ArrayArchive(body, LIMIT)
    assert caught.value.sentence.endswith(".")


def test_zip_bomb_is_rejected_before_unpacking() -> None:
    """Archives with many zeros in few bytes are rejected before they are unpacked, also if a directory hides their
    size.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as member:
        member.write(header("(8, 1048576)"))
        for _ in range(8):
            member.write(bytes(8 * 2**20))
    body = file.getvalue()
    honest = b"PK\x01\x02"
    place = body.index(honest) + 24  # The size in the directory.
    lying = body[:place] + struct.pack("<L", 200) + body[place + 4 :]
    for bomb in (body, lying):
        tracemalloc.start()
        with pytest.raises(ArchiveError):
            ArrayArchive(bomb, 2**20).read("a")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 * 2**20


def test_long_directory_is_rejected_before_parsing() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(2_000):
            archive.writestr(f"steps.{number}.npy", b"")
    with pytest.raises(ArchiveError, match="savez"):
        ArrayArchive(file.getvalue(), LIMIT)


def test_second_directory_is_rejected() -> None:
    body = archived({"a": np.zeros(3)})
    located = body[:-22] + b"PK\x06\x07" + bytes(16) + body[-22:]
    with pytest.raises(ArchiveError, match="savez"):
        ArrayArchive(located, LIMIT)


def test_duplicate_name_is_rejected() -> None:
    file = io.BytesIO()
    content: Any = header("(1,)") + bytes(8)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", content)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", content)
    with pytest.raises(ArchiveError, match="savez"):
        ArrayArchive(file.getvalue(), LIMIT)


def test_changed_bytes_are_detected() -> None:
    body = bytearray(archived({"a": np.arange(100.0)}))
    body[len(body) // 2] ^= 1
    with pytest.raises(ArchiveError) as caught:
        ArrayArchive(bytes(body), LIMIT).read("a")
    assert caught.value.pointer == "/a"
