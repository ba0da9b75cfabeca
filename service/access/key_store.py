"""Stores of API keys: protocol, and the file in the data folder."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from collections.abc import Generator, Hashable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, final

from typing_extensions import override

from service.access.api_keys import SECRET_BYTES, ApiKey, key_from_record
from service.access.errors import KeyStoreError

FILE_NAME: Final = "keys.json"
SECRET_NAME: Final = "keys.secret"  # noqa: S105 - the name of a file
VERSION: Final = 1
LARGEST_FILE_BYTES: Final = 2**24
MOST_KEYS: Final = 10_000


@final
@dataclass(frozen=True)
class StoredKey:
    """API key, and the secret key with which the digest of the API key was computed."""

    key: ApiKey
    digest_key: bytes


class KeyStore(Protocol):
    """Storage of API keys. All methods block, and raise KeyStoreError if the storage cannot be used."""

    def revision(self) -> Hashable:
        """Return a value that changes with the stored API keys, at less cost than reading them.

        The value may be None before the first key is stored.
        """
        ...

    def read(self) -> list[StoredKey]:
        """Return all stored API keys. An empty or absent storage has none."""
        ...

    def digest_key(self) -> bytes:
        """Return the secret key for digests of new API keys. Create it if the storage has none."""
        ...

    def put(self, key: ApiKey) -> None:
        """Add an API key, or replace the stored key with its id. Raise KeyStoreError for more than 10 000 keys."""
        ...

    def remove(self, identifier: str) -> bool:
        """Remove the API key with this id, and return whether it was stored."""
        ...


@final
class KeyFile(KeyStore):
    """Store of API keys in the file `keys.json` of a folder, beside `keys.secret`, the secret key of their digests.

    Both files have mode 0600. A change replaces the file, so that readers see the keys before or after it. Writers take
    turns by a lock. Reading writes nothing, so that the folder may be mounted read-only.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._secret = folder / FILE_NAME, folder / SECRET_NAME

    @override
    def revision(self) -> Hashable:
        # the identity of the file and the time of its last change
        with _translated(self._path):
            try:
                found = self._path.stat()
            except FileNotFoundError:
                return None
            return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    @override
    def read(self) -> list[StoredKey]:
        with _translated(self._path):
            keys = self._keys()
            return [StoredKey(key, self._read_secret()) for key in keys] if keys else []

    @override
    def digest_key(self) -> bytes:
        with _translated(self._secret):
            self._make_folder()
            if not self._secret.exists():
                _write_complete(self._secret, secrets.token_bytes(SECRET_BYTES), replaces=False)
            return self._read_secret()

    @override
    def put(self, key: ApiKey) -> None:
        with _translated(self._path), self._locked():
            others = [each for each in self._keys() if each.id != key.id]
            if len(others) >= MOST_KEYS:
                raise KeyStoreError(f"there are {MOST_KEYS} keys; revoke some first")
            self._write([*others, key])

    @override
    def remove(self, identifier: str) -> bool:
        with _translated(self._path), self._locked():
            keys = self._keys()
            left = [each for each in keys if each.id != identifier]
            if len(left) < len(keys):
                self._write(left)
            return len(left) < len(keys)

    def _keys(self) -> list[ApiKey]:
        try:
            with self._path.open("rb") as file:
                content = file.read(LARGEST_FILE_BYTES + 1)
        except FileNotFoundError:
            return []
        if len(content) > LARGEST_FILE_BYTES:
            raise ValueError
        stored: dict[str, Any] = json.loads(content)
        if stored["version"] != VERSION:
            raise KeyStoreError(f"a newer version of the service wrote {self._path}")
        return [key_from_record(each) for each in stored["keys"]]

    def _read_secret(self) -> bytes:
        found = self._secret.read_bytes()
        if len(found) != SECRET_BYTES:
            raise ValueError
        return found

    def _write(self, keys: list[ApiKey]) -> None:
        content = {"version": VERSION, "keys": [each.record() for each in keys]}
        _write_complete(self._path, json.dumps(content, indent=1).encode() + b"\n", replaces=True)

    def _make_folder(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def _locked(self) -> Generator[None]:
        self._make_folder()
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _write_complete(path: Path, content: bytes, *, replaces: bool) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        if replaces:
            temporary.replace(path)
        else:
            with suppress(FileExistsError):
                path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _translated(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise KeyStoreError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KeyStoreError(f"{path} is damaged") from error
