"""Arrays of an .npz archive. No array is allocated before its size is known, and nothing is unpickled."""

from __future__ import annotations

import math
import struct
import zipfile
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

LARGEST_DIRECTORY_BYTES: Final = 64 * 1024
LARGEST_HEADER_CHARACTERS: Final = 1_000
SUFFIX: Final = ".npy"
END_OF_DIRECTORY: Final = struct.Struct("<4s4H2LH")
"""Last record of a zip archive without a comment."""
LARGE_DIRECTORY_LOCATOR_BYTES: Final = 20
NUMERIC_KINDS: Final = "fiub"
TEXT_KIND: Final = "U"
WIDEST_NUMBER, WIDEST_TEXT = 8, 64
"""Largest size of an item in bytes."""


class ArchiveError(Exception):
    """Defect of an uploaded archive of arrays: the JSON pointer of the array, and a sentence with the rule."""

    def __init__(self, pointer: str, sentence: str) -> None:
        self.pointer, self.sentence = pointer, sentence
        super().__init__(f"{pointer}: {sentence}")


@final
@dataclass(frozen=True, slots=True)
class Header:
    """Shape and kind of an array, from its header. `kind` is the letter of numpy: f, i, u, b or U."""

    shape: tuple[int, ...]
    kind: str


@final
class ArrayArchive:
    """Arrays of an archive as `numpy.savez` or `numpy.savez_compressed` writes it.

    Raises ArchiveError for other bodies, and for arrays that together need more than `largest_bytes` as stored or as
    doubles. Only the directory and the headers are read for these checks.
    """

    def __init__(self, body: bytes, largest_bytes: int) -> None:
        _refuse_large_directory(body)
        try:
            self._archive = zipfile.ZipFile(BytesIO(body))
        except Exception as error:
            raise ArchiveError("", NOT_AN_ARCHIVE) from error
        self._entries = self._read_directory(largest_bytes)
        self.headers = {name: self._read_header(name) for name in self._entries}
        # All numbers become doubles: an array of bytes grows to eight times its size.
        numbers = sum(math.prod(header.shape) for header in self.headers.values())
        if numbers * WIDEST_NUMBER > largest_bytes:
            raise ArchiveError("", TOO_LARGE.format(largest_bytes))

    def read(self, name: str) -> NDArray[Any]:
        """Return the array with this name in the archive.

        Raises ArchiveError if there is no such array, or if its bytes contradict the directory or the header.
        """
        try:
            with self._archive.open(self._entries[name]) as file:
                array: NDArray[Any] = np.lib.format.read_array(
                    file, allow_pickle=False, max_header_size=LARGEST_HEADER_CHARACTERS
                )
        except Exception as error:
            raise ArchiveError(pointer_to(name), "Must be an intact array.") from error
        return array

    def _read_directory(self, largest_bytes: int) -> dict[str, zipfile.ZipInfo]:
        entries: dict[str, zipfile.ZipInfo] = {}
        for entry in self._archive.infolist():
            name = entry.filename.removesuffix(SUFFIX)
            if not entry.filename.endswith(SUFFIX) or name in entries:
                raise ArchiveError("", NOT_AN_ARCHIVE)
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
                raise ArchiveError(pointer_to(name), "Must be stored or deflated, without encryption.")
            entries[name] = entry
        if sum(entry.file_size for entry in entries.values()) > largest_bytes:
            raise ArchiveError("", TOO_LARGE.format(largest_bytes))
        return entries

    def _read_header(self, name: str) -> Header:
        entry = self._entries[name]
        try:
            with self._archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file, max_header_size=LARGEST_HEADER_CHARACTERS)
                size = entry.file_size - file.tell()
        except Exception as error:
            raise ArchiveError(pointer_to(name), "Must be an array in the NumPy format, version 1 or 2.") from error
        widest = WIDEST_TEXT if dtype.kind == TEXT_KIND else WIDEST_NUMBER if dtype.kind in NUMERIC_KINDS else 0
        if not 0 < dtype.itemsize <= widest:
            raise ArchiveError(
                pointer_to(name), "Must contain numbers of at most 8 bytes. Objects are never unpickled."
            )
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size:
            raise ArchiveError(pointer_to(name), "Must have the length that its header states.")
        return Header(tuple(shape), dtype.kind)


TOO_LARGE: Final = "All arrays together may have at most {} bytes. Every number counts as at least 8 bytes."
NOT_AN_ARCHIVE: Final = "The body must be an archive of arrays, as numpy.savez or numpy.savez_compressed writes it."


def _refuse_large_directory(body: bytes) -> None:
    # `zipfile` parses the whole directory of an archive, whatever its size
    end = END_OF_DIRECTORY.size
    if len(body) < end:
        raise ArchiveError("", NOT_AN_ARCHIVE)
    signature, *_, directory_bytes, _, comment = END_OF_DIRECTORY.unpack(body[-end:])
    locator = body[-end - LARGE_DIRECTORY_LOCATOR_BYTES : -end]
    if signature != b"PK\x05\x06" or comment or directory_bytes > LARGEST_DIRECTORY_BYTES:
        raise ArchiveError("", NOT_AN_ARCHIVE)
    if locator.startswith(b"PK\x06\x07"):  # zipfile would use the second directory, of any size
        raise ArchiveError("", NOT_AN_ARCHIVE)


def pointer_to(name: str) -> str:
    """Return the JSON pointer of an array: `steps.0.mean_gradient` becomes /steps/0/mean_gradient."""
    return "/" + name.replace("~", "~0").replace("/", "~1").replace(".", "/")
