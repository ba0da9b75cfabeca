"""Keys are Ed25519 keys in files that others cannot read; public keys are JSON Web Keys of RFC 8037."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from service.command.main import main
from service.ed25519_points import FIELD_PRIME, SMALL_ORDER
from service.signing.errors import UnusableKeys
from service.signing.keys import (
    LARGEST_KEY_SET,
    MOST_KEYS,
    create_private_key,
    decode_base64url,
    encode_base64url,
    parse_key_set,
    read_signing_keys,
)
from tests.signing.statements import keys, pem, private_key, write, write_keys

PUBLISHED = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
"""Public key of RFC 8037, appendix A.2."""
THUMBPRINT = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
"""Its thumbprint, appendix A.3."""


def public_pem(number: int) -> bytes:
    return private_key(number).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def of_another_type() -> dict[str, bytes]:
    made: dict[str, Any] = {
        "RSA": rsa.generate_private_key(65_537, 2048),
        "EC": ec.generate_private_key(ec.SECP256R1()),
        "Ed448": ed448.Ed448PrivateKey.generate(),
        "X25519": x25519.X25519PrivateKey.generate(),
    }
    return {name: key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) for name, key in made.items()}


def test_thumbprint_is_that_of_the_standard() -> None:
    [key] = parse_key_set(json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": PUBLISHED}]}).encode()).values()
    assert key.id == THUMBPRINT
    assert key.json_web_key["kid"] == THUMBPRINT


def doubled(y: int) -> int:
    """Return the y coordinate of twice a point of -x^2 + y^2 = 1 + d x^2 y^2."""
    p = FIELD_PRIME
    d = -121_665 * pow(121_666, -1, p) % p
    x_squared = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
    return (y * y + x_squared) * pow(1 - d * x_squared * y * y, -1, p) % p


def test_points_of_small_order_are_those_that_three_doublings_end() -> None:
    """The refused points are those that three doublings take to the neutral element.

    1 is the y coordinate of the neutral element. Each y coordinate but those of order 1 and 2 has two points.
    """
    assert {doubled(doubled(doubled(y))) for y in SMALL_ORDER} == {1}
    assert 2 * len(SMALL_ORDER) - 2 == 8


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", [*sorted(SMALL_ORDER), FIELD_PRIME, FIELD_PRIME + 1, 2**255 - 1])
def test_key_of_small_order_is_refused(y: int, sign: int) -> None:
    """A public key of small order is refused.

    OpenSSL accepts such a key, and S = 0 is then a signature of about every eighth message.
    """
    x = encode_base64url((y + sign * 2**255).to_bytes(32, "little"))
    with pytest.raises(UnusableKeys, match=r"small order|`x` of 32 bytes"):
        parse_key_set(json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x}]}).encode())


def test_created_key_signs(tmp_path: Path) -> None:
    found = read_signing_keys(Path(write(tmp_path, "key.pem", create_private_key())))
    [public] = parse_key_set(json.dumps(found.key_set).encode()).values()
    assert public.id == found.id
    assert public.verifies(found.sign(b"text"), b"text")
    assert not public.verifies(found.sign(b"text"), b"another text")


def test_first_key_signs_and_all_public_keys_are_published(tmp_path: Path) -> None:
    path = write(tmp_path, "keys.pem", b"current\n" + pem(2) + b"\nretired\n" + public_pem(1) + pem(3))
    found = read_signing_keys(Path(path))
    assert found.id == keys(2).id
    assert [key.id for key in found.public] == [keys(number).id for number in (2, 1, 3)]
    assert b"d" not in json.dumps(found.key_set).encode().split(b'"kid"')[0].split(b'"')[1::2]
    assert set(found.key_set["keys"][0]) == {"kty", "crv", "x", "kid", "use", "alg"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no PEM block"),
        (b"secret", "no PEM block"),
        (pem(1)[:-10], "without its end"),
        (pem(1) + pem(2)[:60], "without its end"),
        (pem(1).replace(b"MC4", b"MC5"), "is no key"),
        (public_pem(1), "must be a private key"),
        (pem(1) * 2, "more than once"),
        (pem(1) + public_pem(1), "more than once"),
        (b"".join(map(pem, range(1, MOST_KEYS + 2))), "more than 32 keys"),
        (b"x" * 70_000, "bytes"),
        (
            private_key(1).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")),
            "encrypted",
        ),
    ],
)
def test_unusable_files_are_explained(content: bytes, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableKeys, match=sentence) as caught:
        read_signing_keys(Path(write(tmp_path, "keys.pem", content)))
    assert "\n" not in caught.value.sentence
    assert "MC4" not in caught.value.sentence


def test_keys_of_another_type_are_named(tmp_path: Path) -> None:
    for name, content in of_another_type().items():
        with pytest.raises(UnusableKeys, match=f"of type {name}, and only Ed25519 signs"):
            read_signing_keys(Path(write(tmp_path, "key.pem", content)))


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o602, 0o666])
def test_file_that_others_may_read_is_refused(mode: int, tmp_path: Path) -> None:
    path = Path(write(tmp_path, "key.pem", pem(1)))
    path.chmod(mode)
    with pytest.raises(UnusableKeys, match=r"others may read .*; restrict it with: chmod 600"):
        read_signing_keys(path)
    for allowed in (0o400, 0o600):
        path.chmod(allowed)
        read_signing_keys(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of root")
def test_group_may_read_a_file_of_root(tmp_path: Path) -> None:
    path = Path(write(tmp_path, "key.pem", pem(1)))
    path.chmod(0o440)
    read_signing_keys(path)
    os.chown(path, 10_001, 10_001)
    with pytest.raises(UnusableKeys, match="others may read"):
        read_signing_keys(path)


def test_what_is_no_file_is_explained(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    found = {"pipe": "not a regular file", "missing": "cannot be read: no such file", ".": "not a regular file"}
    for path, sentence in found.items():
        with pytest.raises(UnusableKeys, match=sentence):
            read_signing_keys(tmp_path / path)


def jwk(**changes: Any) -> dict[str, Any]:
    members = keys(1).key_set["keys"][0] | changes
    return {name: value for name, value in members.items() if value is not None}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"keys":[],"keys":[]}', "a member twice"),
        (b"[]", "no JSON Web Key Set"),
        (b'{"keys":{}}', "no JSON Web Key Set"),
        (b'{"keys":[7]}', "another type"),
        (b" " * (LARGEST_KEY_SET + 1), "bytes"),
        (json.dumps({"keys": [jwk()] * 33}).encode(), "more than 32 keys"),
        (json.dumps({"keys": [jwk(), jwk()]}).encode(), "more than once"),
        (json.dumps({"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}).encode(), "another type"),
        (json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}).encode(), "another type"),
        (json.dumps({"keys": [jwk(crv="X25519")]}).encode(), "another type"),
        (json.dumps({"keys": [jwk(d=PUBLISHED)]}).encode(), "contains a private key"),
        (json.dumps({"keys": [jwk(use="enc")]}).encode(), "not for signatures"),
        (json.dumps({"keys": [jwk(alg="none")]}).encode(), "not for signatures"),
        (json.dumps({"keys": [jwk(kid=THUMBPRINT)]}).encode(), "not its thumbprint"),
        (json.dumps({"keys": [jwk(x=PUBLISHED[:-1], kid=None)]}).encode(), "no `x` of 32 bytes"),
        (json.dumps({"keys": [jwk(x=PUBLISHED + "=", kid=None)]}).encode(), "no `x` of 32 bytes"),
        (json.dumps({"keys": [jwk(x=PUBLISHED + "\n", kid=None)]}).encode(), "no `x` of 32 bytes"),
        (json.dumps({"keys": [jwk(x=None, kid=None)]}).encode(), "no `x` of 32 bytes"),
        (json.dumps({"keys": [jwk(x=7, kid=None)]}).encode(), "no `x` of 32 bytes"),
    ],
)
def test_unusable_public_keys_are_explained(content: bytes, sentence: str) -> None:
    with pytest.raises(UnusableKeys, match=sentence):
        parse_key_set(content)


@pytest.mark.parametrize("text", ["A", "AA=", "AB", "A A", "ä", "AA\n", "-_=="])
def test_base64url_has_one_form(text: str) -> None:
    """A text that is not the one form of its bytes in base64url is refused.

    In "AB", for example, the unused bits are not zero.
    """
    with pytest.raises(ValueError, match=r"not canonical|padd|codec|base64|data"):
        decode_base64url(text)


def test_command_creates_a_key_once(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "key.pem"
    assert main(["signing-key", "create", "--output", str(path)]) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    assert main(["signing-key", "create", "--output", str(path)]) == 2
    assert path.read_bytes() == before
    assert b"File exists" in capfdbinary.readouterr().err
    assert main(["signing-key", "create"]) == 0
    printed = capfdbinary.readouterr().out
    assert printed.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert printed != before


def test_command_prints_public_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["signing-key", "public", write(tmp_path, "key.pem", pem(1) + pem(2))]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(Path(write_keys(tmp_path, 1, 2)).read_bytes())
    assert main(["signing-key", "public", str(tmp_path / "missing")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    for wrong in (["public"], ["create", "key.pem"]):
        with pytest.raises(SystemExit):
            main(["signing-key", *wrong])
