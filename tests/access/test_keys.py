"""API keys: malformed keys of every form, their store, and the command that manages them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.access.api_keys import KEY_TEXT, digest_of, key_from_record, new_key
from service.access.authenticator import Authenticator
from service.access.caller import SCOPES
from service.access.errors import AccessError, AuthenticationUnavailable, KeyStoreError, Unauthenticated
from service.access.key_redis import KEYS, RedisKeys
from service.access.key_ring import LONGEST_STALE_SECONDS, KeyRing
from service.access.key_store import FILE_NAME, SECRET_NAME, KeyFile, KeyStore
from service.command.main import main
from service.execution.entry_mac import EntryAuthenticator
from tests.access.keys import make_key

SEAL = "a seal key of at least 32 characters"


def ring_of(store: KeyStore) -> KeyRing:
    return KeyRing(store, lambda _: None)


def accepts(ring: KeyRing, text: str | bytes) -> bool:
    """Return whether a key ring accepts a key, after it has read its store again."""

    async def tried() -> bool:
        await ring.refresh()
        try:
            await ring.caller(text if isinstance(text, bytes) else text.encode())
        except Unauthenticated:
            return False
        return True

    return asyncio.run(tried())


def test_digest_is_the_hmac_of_rfc_2104() -> None:
    """The digest of a key is the HMAC of RFC 2104, written out: H((K xor opad) || H((K xor ipad) || message))."""
    import hashlib

    key, message = bytes(range(32)), b"privacy-bounds api key\0" + b"0123456789abcdef_" + b"secret"
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(each ^ 0x36 for each in padded) + message).digest()
    outer = hashlib.sha256(bytes(each ^ 0x5C for each in padded) + inner).digest()
    assert digest_of(key, b"0123456789abcdef", b"secret") == outer


def test_secret_is_stored_nowhere(tmp_path: Path) -> None:
    text = make_key(tmp_path, "compute", name="ci")
    secret = text.split("_", 2)[2]  # the secret may contain "_"
    assert len(text) == 64
    assert all(secret[:8].encode() not in file.read_bytes() for file in tmp_path.iterdir())
    for name in (FILE_NAME, SECRET_NAME):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_every_changed_character_is_refused(tmp_path: Path) -> None:
    text = make_key(tmp_path, "compute")
    ring = ring_of(KeyFile(tmp_path))
    assert accepts(ring, text)
    for place in range(len(text)):
        for other in "aZ0-_ ":
            changed = text[:place] + other + text[place + 1 :]
            assert accepts(ring, changed) == (changed == text), place


MALFORMED = (
    b"",
    b"pbk_",
    b"pbk__",
    b"pbk_0123456789abcdef_",
    b"pbk_0123456789ABCDEF_" + b"A" * 43,
    b"pbk_0123456789abcdef_" + b"A" * 42,
    b"pbk_0123456789abcdef_" + b"A" * 44,
    b"pbk_0123456789abcdef_" + b"A" * 43 + b"\n",
    b"\0pbk_0123456789abcdef_" + b"A" * 43,
    b"pbk_../../../etc/passw_" + b"A" * 43,
    b"pbk_0123456789abcdef_" + "é".encode() * 21 + b"A",
    b"A" * 100_000,
)


@pytest.mark.parametrize("text", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_keys_are_refused(tmp_path: Path, text: bytes) -> None:
    make_key(tmp_path, "compute")
    assert not accepts(ring_of(KeyFile(tmp_path)), text)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authenticator, str]:
    folder = tmp_path_factory.mktemp("keys")
    text = make_key(folder, "compute")
    ring = ring_of(KeyFile(folder))
    assert accepts(ring, text)
    return Authenticator(ring), text


def caller_of_headers(authenticator: Authenticator, values: list[bytes]) -> bool:
    try:
        asyncio.run(authenticator.caller([(b"authorization", value) for value in values]))
    except AccessError:
        return False
    return True


@given(st.lists(st.binary(max_size=300), max_size=3))
@example([b"Bearer"])
@example([b"Bearer "])
@example([b"Basic dXNlcjpwYXNz"])
@example([b"Bearer a.b.c"])
@example([b"Bearer \xff\xfe"])
@settings(max_examples=300)
def test_no_other_header_is_accepted(known: tuple[Authenticator, str], values: list[bytes]) -> None:
    authenticator, text = known
    assert not caller_of_headers(authenticator, values)
    assert not caller_of_headers(authenticator, [f"Bearer {text}".encode(), *values, b"x"])


@given(st.binary(max_size=20), st.binary(max_size=20))
@settings(max_examples=300)
def test_header_around_a_key_has_one_form(known: tuple[Authenticator, str], before: bytes, after: bytes) -> None:
    authenticator, text = known
    value = before + text.encode() + after
    is_form = before.lower().startswith(b"bearer ") and not before[6:].strip(b" ") and not after.strip(b" ")
    assert caller_of_headers(authenticator, [value]) == is_form


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER   "])
def test_scheme_has_no_case(known: tuple[Authenticator, str], scheme: str) -> None:
    authenticator, text = known
    assert caller_of_headers(authenticator, [(scheme + text).encode()])


def stores(tmp_path: Path, redis_url: str) -> list[KeyStore]:
    return [KeyFile(tmp_path), RedisKeys(redis_url, [SEAL], lambda key: EntryAuthenticator([key]))]


@pytest.mark.parametrize("kind", [0, 1], ids=["file", "redis"])
def test_stored_keys_work_expire_and_are_revoked(tmp_path: Path, redis_url: str, kind: int) -> None:
    store = stores(tmp_path, redis_url)[kind]
    assert store.read() == []
    now = time.time()
    common: dict[str, Any] = {"name": None, "group": "team", "scopes": frozenset(["jobs"]), "now": now}
    lasting, text = new_key(store.digest_key(), **common, expires=None)
    ended, ended_text = new_key(store.digest_key(), **common, expires=now - 1)
    before = store.revision()
    store.put(lasting)
    store.put(ended)
    assert store.revision() != before
    ring = ring_of(store)
    assert accepts(ring, text)
    assert not accepts(ring, ended_text)
    assert {each.key.id for each in store.read()} == {lasting.id, ended.id}
    assert store.remove(lasting.id)
    assert not store.remove(lasting.id)
    assert not accepts(ring, text)


def test_key_in_redis_needs_its_seal(redis_url: str) -> None:
    """A writer of Redis without the seal key can neither make nor move a key, nor add scopes to it."""
    import redis

    store = RedisKeys(redis_url, [SEAL], lambda key: EntryAuthenticator([key]))
    key, text = new_key(
        store.digest_key(), name="ci", group=None, scopes=frozenset(["jobs"]), now=time.time(), expires=None
    )
    store.put(key)
    rotated = RedisKeys(redis_url, ["another seal key of 32 characters", SEAL], lambda key: EntryAuthenticator([key]))
    assert accepts(ring_of(rotated), text)
    with redis.Redis.from_url(redis_url) as client:
        entry: Any = client.hget(KEYS, key.id)
        for forged in (entry.replace(b'"jobs"', b'"admin"'), json.dumps(key.record()).encode(), b"", b"{}"):
            client.hset(KEYS, key.id, forged)
            assert store.read() == []
        client.hset(KEYS, "0" * 16, entry)
        assert store.read() == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'{"version": 1}', b'{"version": 1, "keys": [{}]}', b"\xff", b"[" * 100_000]
)
def test_damaged_file_is_one_phrase(tmp_path: Path, content: bytes) -> None:
    make_key(tmp_path, "compute")
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(KeyStoreError, match=r"keys\.json is damaged$"):
        KeyFile(tmp_path).read()


@pytest.mark.parametrize("changes", [{"created": 10**400}, {"expires": 10**400}, {"scopes": [[]]}, {"digest": "00"}])
async def test_damaged_record_does_not_end_the_looks_at_the_store(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A damaged record does not end the repeated reading of the store.

    An unexpected error would otherwise end it, so that revoked keys stay valid.
    """
    text = make_key(tmp_path, "compute")
    stored = json.loads((tmp_path / FILE_NAME).read_bytes())
    stored["keys"][0] |= changes
    (tmp_path / FILE_NAME).write_text(json.dumps(stored))
    ring = KeyRing(KeyFile(tmp_path), lambda _: None)
    await ring.refresh()
    assert ring.failure.endswith("keys.json is damaged")
    with pytest.raises(AuthenticationUnavailable):
        await ring.caller(text.encode())


def test_file_of_a_newer_version_is_not_changed(tmp_path: Path) -> None:
    make_key(tmp_path, "compute")
    newer = b'{"version": 2, "keys": []}'
    (tmp_path / FILE_NAME).write_bytes(newer)
    with pytest.raises(KeyStoreError, match="newer version"):
        make_key(tmp_path, "compute")
    assert (tmp_path / FILE_NAME).read_bytes() == newer


@pytest.mark.parametrize(
    "change",
    [
        {"scopes": ["root"]},
        {"scopes": 7},
        {"id": "../x"},
        {"name": "a\nb"},
        {"group": ""},
        {"digest": "00"},
        {"expires": "never"},
        {"expires": float("nan")},
        {"other": 1},
    ],
    ids=str,
)
def test_record_with_another_member_is_refused(change: dict[str, object]) -> None:
    key, _ = new_key(bytes(32), name=None, group=None, scopes=frozenset(["jobs"]), now=0.0, expires=None)
    assert key_from_record(key.record()) == key
    with pytest.raises(ValueError, match="not a record"):
        key_from_record(key.record() | change)


def test_writers_lose_no_key(tmp_path: Path) -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(make_key(tmp_path, "jobs"))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.key.id for each in KeyFile(tmp_path).read()) == sorted(text[4:20] for text in made)
    assert {file.name for file in tmp_path.iterdir()} == {FILE_NAME, SECRET_NAME, "keys.lock"}


def test_read_only_folder_is_enough_to_check_keys(tmp_path: Path) -> None:
    text = make_key(tmp_path, "jobs")
    tmp_path.chmod(0o500)
    try:
        assert accepts(ring_of(KeyFile(tmp_path)), text)
    finally:
        tmp_path.chmod(0o700)


def test_keys_stay_valid_while_their_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = make_key(tmp_path, "jobs")
    reports: list[str] = []
    ring = KeyRing(KeyFile(tmp_path), reports.append)
    assert accepts(ring, text)
    (tmp_path / FILE_NAME).write_bytes(b"{")
    assert accepts(ring, text)
    assert len(reports) == 1
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + LONGEST_STALE_SECONDS + 1)
    with pytest.raises(AuthenticationUnavailable):
        accepts(ring, text)


def run(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = main(arguments.split())
    except SystemExit as ended:
        code = int(str(ended.code))
    out, err = capsys.readouterr()
    return code, out, err


def test_command_creates_lists_rotates_and_revokes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(tmp_path))
    code, text, err = run("keys create --scope compute --scope jobs --name ci --group team --expires 90d", capsys)
    assert (code, err) == (0, "")
    assert KEY_TEXT.fullmatch(text.removesuffix("\n").encode()), "the key stands alone on standard output"
    [listed] = json.loads(run("keys list --json", capsys)[1])["keys"]
    assert (listed["name"], listed["group"], listed["scopes"]) == ("ci", "team", ["compute", "jobs"])
    assert listed["expires"] == pytest.approx(time.time() + 90 * 86_400, abs=60)
    table = run("keys list", capsys)[1]
    assert listed["id"] in table
    assert text.split("_", 2)[2].strip() not in table
    code, rotated, _ = run(f"keys rotate {listed['id']} --keep 30m", capsys)
    assert code == 0
    both = {each["id"]: each for each in json.loads(run("keys list --json", capsys)[1])["keys"]}
    assert both[listed["id"]]["expires"] == pytest.approx(time.time() + 1_800, abs=60)
    assert both[rotated[4:20]]["expires"] is None
    assert both[rotated[4:20]]["scopes"] == listed["scopes"]
    ring = ring_of(KeyFile(tmp_path))
    assert accepts(ring, text.strip())
    assert accepts(ring, rotated.strip())
    assert run(f"keys revoke {listed['id']}", capsys)[0] == 0
    assert not accepts(ring, text.strip())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("keys create", "--scope"),
        ("keys create --scope root", "invalid choice"),
        ("keys create --scope jobs --expires 2001-01-01", "--expires must be in the future."),
        ("keys create --scope jobs --expires soon", "use a duration such as 90d"),
        ("keys create --scope jobs --expires 999999d", "use a duration"),
        ("keys create --scope jobs --name a/b", "use 1 to 64 letters"),
        ("keys create --scope jobs --name " + "a" * 65, "use 1 to 64 letters"),
        ("keys rotate nothing", "no key has the id 'nothing'."),
        ("keys revoke nothing", "no key has the id 'nothing'."),
    ],
)
def test_bad_arguments_are_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    sentence: str,
) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", str(tmp_path))
    code, out, err = run(arguments, capsys)
    assert (code, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err


def test_store_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRIVACY_BOUNDS_DATA_FOLDER", os.fspath(tmp_path / "file" / "folder"))
    code, out, err = run("keys create --scope jobs", capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)
    monkeypatch.setenv("PRIVACY_BOUNDS_KEYS_STORE", "redis")
    code, out, err = run("keys create --scope jobs", capsys)
    assert (code, out) == (2, "")
    assert "PRIVACY_BOUNDS_SEAL_KEY" in err


def test_scopes_are_the_closed_set() -> None:
    assert {"compute", "jobs", "ledgers:read", "ledgers:write", "metrics", "admin"} == SCOPES
