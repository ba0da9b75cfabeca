"""Archive of a data folder: a ZIP file with a manifest, the file of jobs, API keys and quarantined results.

The names of the members are fixed. Reading takes nothing but these names from an archive, so that no archive writes
outside of the folder. The manifest has length and SHA-256 of each member. The checksums find damage. They do not
prove who wrote an archive, because who can change a member can change the manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

FORMAT: Final = "privacy-bounds backup"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
MEMBERS: Final = ("jobs.sqlite", "keys.json", "keys.secret", "quarantined_results")
"""Names of files in a data folder that an archive may have."""
LARGEST_MANIFEST_BYTES: Final = 2**16
PIECE_BYTES: Final = 2**20
OWNER_ONLY: Final = 0o600
COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DAMAGES: Final = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError)
"""What reading a damaged, encrypted or unknown ZIP file raises."""


class BackupError(Exception):
    """Raised for a backup that cannot be written or restored. The message is one sentence for the operator."""


def write_archive(path: Path, folder: Path, facts: Mapping[str, Any]) -> list[str]:
    """Write the files of `folder` into a new archive of mode 0600 at `path`, and return their names.

    `facts` go into the manifest. Raise OSError, also if the path exists.
    """
    names = [name for name in MEMBERS if (folder / name).exists()]
    files = {name: _description(folder / name) for name in names}
    manifest = {"format": FORMAT, "version": VERSION, **facts, "files": files}
    # Opened by hand: the file belongs to its owner alone from its first moment on, and replaces no other.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file:
        try:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(MANIFEST, json.dumps(manifest, indent=1))
                for name in names:
                    archive.write(folder / name, name)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise
    return names


def extract_archive(path: Path, folder: Path) -> dict[str, Any]:
    """Check the archive at `path`, write its files into `folder`, and return its manifest.

    The manifest has the facts of `write_archive`, and as `files` the length and checksum of each file by name. Raise
    BackupError for an archive that is damaged, of a newer format, or has other members than a backup, and if the disk
    has too little space. Raise OSError if a file exists already.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = _read_manifest(archive)
            files: dict[str, Any] = manifest["files"]
            if sum(each["bytes"] for each in files.values()) > shutil.disk_usage(folder).free:
                raise BackupError(f"{folder} has too little space for the archive")
            for name, described in files.items():
                _extract_checked(archive, name, folder / name, described)
    except BackupError:
        raise
    except _DAMAGES as error:
        raise BackupError("the archive is damaged, or no ZIP file") from error
    return manifest


def _description(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _read_manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    names = archive.namelist()
    if MANIFEST not in names:
        raise BackupError("the archive has no manifest: it is no backup of privacy-bounds")
    if any(member.compress_type not in COMPRESSIONS for member in archive.infolist()):
        raise BackupError("the archive is compressed in another way than a backup of privacy-bounds")
    with archive.open(MANIFEST) as file:
        text = file.read(LARGEST_MANIFEST_BYTES + 1)
    if len(text) > LARGEST_MANIFEST_BYTES:
        raise BackupError("the manifest of the archive is too long")
    manifest: Any = json.loads(text)
    if not isinstance(manifest, dict) or cast("dict[str, Any]", manifest).get("format") != FORMAT:
        raise BackupError("the archive is no backup of privacy-bounds")
    found = cast("dict[str, Any]", manifest)
    version = found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BackupError("the archive has no version")
    if version > VERSION:
        raise BackupError(f"a newer version of privacy-bounds wrote the archive (format {version}, known: {VERSION})")
    files: Any = found.get("files")
    if not isinstance(files, dict) or not all(_is_described(each) for each in cast("dict[str, Any]", files).values()):
        raise BackupError("the manifest of the archive is incomplete")
    given = [*cast("dict[str, Any]", files), MANIFEST]
    if sorted(names) != sorted(given) or not set(given) <= {*MEMBERS, MANIFEST}:
        raise BackupError("the archive has other members than a backup of privacy-bounds")
    return found


def _is_described(described: Any) -> bool:
    if not isinstance(described, dict):
        return False
    size, digest = (cast("dict[str, Any]", described).get(name) for name in ("bytes", "sha256"))
    return isinstance(size, int) and size >= 0 and isinstance(digest, str)


def _extract_checked(archive: zipfile.ZipFile, name: str, target: Path, described: Mapping[str, Any]) -> None:
    digest, left = hashlib.sha256(), int(described["bytes"])
    with (
        archive.open(name) as member,
        os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb") as file,
    ):
        while piece := member.read(min(PIECE_BYTES, left + 1)):
            left -= len(piece)
            if left < 0:
                break
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    if left or digest.hexdigest() != described["sha256"]:
        raise BackupError(f"the archive is damaged: {name} does not have the length and the checksum of the manifest")
