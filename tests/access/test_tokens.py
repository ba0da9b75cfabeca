"""Signed tokens are accepted only with the issuer's key, its algorithm and its claims. JWK sets of every bad form."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from service.access.algorithms import ALGORITHMS
from service.access.caller import Caller
from service.access.errors import AccessError, AuthenticationUnavailable, Unauthenticated
from service.access.key_set_source import RETRY_SECONDS, AddressReader, FileReader, KeySetSource
from service.access.signing_keys import LARGEST_SET_BYTES, InvalidKeySet, read_key_set
from service.access.tokens import VERIFIED_SECONDS, TokenRules, TokenVerifier
from service.ed25519_points import SMALL_ORDER
from service.settings import ConfigurationError, Settings, read_settings
from service.signing.keys import encode_base64url
from tests.timeouts import TEST_TIMEOUT

ISSUER, AUDIENCE = "https://issuer.example.com", "privacy-bounds"
RULES = TokenRules(ISSUER, AUDIENCE, ALGORITHMS, 30.0, "team")
PRIVATE: dict[str, Any] = {
    "RS": rsa.generate_private_key(65_537, 2_048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
SIGNER = {name: PRIVATE["RS" if name[:2] in ("RS", "PS") else name] for name in ALGORITHMS}


def jwk_of(name: str, **members: Any) -> dict[str, Any]:
    """Return the public key of an algorithm as a JSON Web Key."""
    made = jwt.get_algorithm_by_name(name).to_jwk(SIGNER[name].public_key(), as_dict=True)
    return {**made, "kid": name[:2] if name[:2] == "RS" else name, **members}


JWKS = {"keys": [jwk_of(name) for name in ("RS256", "ES256", "ES384", "ES512", "EdDSA")]}


def kid_of(name: str) -> str:
    return "RS" if name[:2] in ("RS", "PS") else name


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    whole = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "alice",
        "exp": now + 600,
        "iat": now,
        "scope": "openid compute jobs",
    }
    return {name: value for name, value in (whole | changes).items() if value is not None}


def token(name: str = "ES256", *, header: Mapping[str, Any] | None = None, **changes: Any) -> str:
    return jwt.encode(claims(**changes), SIGNER[name], algorithm=name, headers={"kid": kid_of(name), **(header or {})})


class Source:
    """Reader of a JSON Web Key set that counts how often the set is read."""

    def __init__(self, content: Any = JWKS) -> None:
        self.content, self.count = content, 0

    async def __call__(self) -> bytes:
        self.count += 1
        if isinstance(self.content, Exception):
            raise self.content
        return self.content if isinstance(self.content, bytes) else json.dumps(self.content).encode()


class Clock:
    """Clock that stands still until it is set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def verifier(source: Any = None, rules: TokenRules = RULES, clock: Clock | None = None) -> TokenVerifier:
    set_source = KeySetSource(source or Source(), lambda _: None, clock=clock or time.monotonic)
    return TokenVerifier(rules, set_source)


def caller(text: str | bytes, of: TokenVerifier | None = None) -> Caller:
    return asyncio.run((of or verifier()).caller(text if isinstance(text, bytes) else text.encode()))


def is_refused(text: str | bytes, of: TokenVerifier | None = None) -> bool:
    try:
        caller(text, of)
    except Unauthenticated as error:
        return error.is_wrong and error.args == ()
    return False


@pytest.mark.parametrize("name", ALGORITHMS)
def test_valid_token_names_its_caller(name: str) -> None:
    found = caller(token(name))
    assert found == Caller("alice", "sub:alice", frozenset({"compute", "jobs"}), "token", f"{ISSUER}#alice")


@pytest.mark.parametrize(
    ("sent", "scopes"),
    [
        ({"scope": "compute"}, ["compute"]),
        ({"scope": None, "scp": ["jobs", "metrics", 7, None]}, ["jobs", "metrics"]),
        ({"scope": None, "scp": "admin other"}, ["admin"]),
        ({"scope": None}, []),
        ({"scope": {"compute": True}}, []),
        ({"scope": "COMPUTE compute\tjobs"}, []),
    ],
    ids=str,
)
def test_scopes_are_read_from_scope_or_scp(sent: dict[str, Any], scopes: list[str]) -> None:
    assert caller(token(**sent)).scopes == set(scopes)


def test_group_comes_from_the_claim() -> None:
    assert caller(token(team="privacy")).group == "privacy"
    for wrong in ("", "sub:bob", ["privacy"], 7, "a\nb", "x" * 256):
        assert is_refused(token(team=wrong)), wrong


def unsigned(header: dict[str, Any], body: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """Return a token whose header and signature are made by hand."""

    def encoded(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    signed = encoded(json.dumps(header).encode()) + b"." + encoded(json.dumps(body).encode())
    return (signed + b"." + encoded(sign(signed))).decode()


def pem_of(name: str) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    pem: bytes = SIGNER[name].public_key().public_bytes(serialization.Encoding.PEM, form)
    return pem


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE", ""])
def test_algorithm_none_is_refused(name: str) -> None:
    for kid in ("RS", "ES256"):
        assert is_refused(unsigned({"alg": name, "kid": kid, "typ": "JWT"}, claims(), lambda _: b""))


@pytest.mark.parametrize("name", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("of", ["RS256", "ES256", "EdDSA"])
def test_hmac_with_the_public_key_is_refused(name: str, of: str) -> None:
    digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[name]
    secrets = (pem_of(of), json.dumps(jwk_of(of)).encode(), b"")
    for secret in secrets:
        header = {"alg": name, "kid": kid_of(of), "typ": "JWT"}
        assert is_refused(unsigned(header, claims(), lambda signed, key=secret: hmac.new(key, signed, digest).digest()))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_key_of_another_type_is_refused(name: str) -> None:
    """A token is refused if its header names an algorithm or a key that does not fit the signature."""
    for other in ALGORITHMS:
        if SIGNER[other] is SIGNER[name]:
            continue
        assert is_refused(jwt.encode(claims(), SIGNER[name], algorithm=name, headers={"kid": kid_of(other)}))
        header = {"alg": other, "kid": kid_of(name), "typ": "JWT"}
        assert is_refused(
            unsigned(header, claims(), lambda signed: jwt.get_algorithm_by_name(name).sign(signed, SIGNER[name]))
        )


def test_algorithm_outside_of_the_settings_is_refused() -> None:
    rules = TokenRules(ISSUER, AUDIENCE, ("ES256",), 0.0, None)
    assert caller(token("ES256"), verifier(rules=rules)).name == "alice"
    assert is_refused(token("RS256"), verifier(rules=rules))


def test_algorithm_of_the_key_is_the_only_one() -> None:
    only = Source({"keys": [jwk_of("RS256", alg="PS256")]})
    assert caller(token("PS256"), verifier(only)).name == "alice"
    assert is_refused(token("RS256"), verifier(only))


def test_key_of_another_issuer_is_refused() -> None:
    stranger = ec.generate_private_key(ec.SECP256R1())
    jwk = jwt.get_algorithm_by_name("ES256").to_jwk(stranger.public_key(), as_dict=True)
    for header in (
        {},
        {"kid": "ES256"},
        {"jwk": jwk},
        {"jku": "https://evil.example.com"},
        {"x5u": "https://evil.example.com"},
    ):
        assert is_refused(jwt.encode(claims(), stranger, algorithm="ES256", headers=header))


WRONG_CLAIMS: dict[str, dict[str, Any]] = {
    "other issuer": {"iss": "https://evil.example.com"},
    "issuer with a slash": {"iss": ISSUER + "/"},
    "no issuer": {"iss": None},
    "other audience": {"aud": "another service"},
    "no audience": {"aud": None},
    "no audience in list": {"aud": ["another service"]},
    "expired": {"exp": int(time.time()) - 31},
    "expired for ever": {"exp": 0},
    "negative end": {"exp": -1},
    "no end": {"exp": None},
    "end in words": {"exp": "tomorrow"},
    "end in a list": {"exp": [2**40]},
    "infinite end": {"exp": float("inf")},
    "no number": {"exp": float("nan")},
    "not yet": {"nbf": int(time.time()) + 86_400},
    "issued later": {"iat": int(time.time()) + 86_400},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "numeric subject": {"sub": 7},
    "subject with a line break": {"sub": "a\nlevel=error"},
    "long subject": {"sub": "a" * 256},
}


@pytest.mark.parametrize("name", WRONG_CLAIMS)
def test_wrong_claims_are_refused(name: str) -> None:
    assert is_refused(token(**WRONG_CLAIMS[name]))


@pytest.mark.parametrize(
    "change", [{"iss": [ISSUER]}, {"iss": {}}, {"aud": {"privacy-bounds": 1}}, {"aud": 7}], ids=str
)
def test_claims_of_another_type_are_refused(change: dict[str, Any]) -> None:
    def sign(signed: bytes) -> bytes:
        return jwt.get_algorithm_by_name("EdDSA").sign(signed, SIGNER["EdDSA"])

    header = {"alg": "EdDSA", "kid": "EdDSA", "typ": "JWT"}
    assert caller(unsigned(header, claims(), sign)).name == "alice"
    assert is_refused(unsigned(header, claims(**change), sign))


def test_clock_difference_is_tolerated() -> None:
    now = int(time.time())
    assert caller(token(exp=now - 20, nbf=now + 20)).name == "alice"
    assert is_refused(token(exp=now - 20), verifier(rules=TokenRules(ISSUER, AUDIENCE, ALGORITHMS, 0.0, None)))


def test_critical_extensions_are_refused() -> None:
    assert is_refused(token(header={"crit": ["b64"], "b64": False}))
    assert is_refused(token(header={"crit": []}))


def test_every_changed_byte_is_refused() -> None:
    """A token with any changed byte is refused.

    The last character of a part has bits that the encoding ignores, so only its other bits are changed.
    """
    text = token("EdDSA")
    ends = [place - 1 for place, each in enumerate(text + ".") if each == "."]
    of = verifier()
    assert caller(text, of).name == "alice"
    for place in range(0, len(text), 3):
        if place not in ends:
            changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
            assert is_refused(changed, of), place


SHARED = verifier()


@given(st.one_of(st.binary(max_size=400), st.text(max_size=200).map(str.encode)))
@example(b"..")
@example(b"a.b.c")
@example(b"e30.e30.e30")
@example(b"e30=.e30=.")
@example(base64.urlsafe_b64encode(b"[" * 5_000).rstrip(b"=") + b".e30.e30")
@example(base64.urlsafe_b64encode(b'{"alg": "ES256", "kid": 7}').rstrip(b"=") + b".e30.e30")
@example(base64.urlsafe_b64encode(b'{"alg": ["ES256"], "kid": {}}').rstrip(b"=") + b".e30.e30")
@example(base64.urlsafe_b64encode(b"NaN").rstrip(b"=") + b".e30.e30")
@example(token().encode() * 20)
@settings(max_examples=300)
def test_no_other_bytes_are_a_token(text: bytes) -> None:
    with suppress(AuthenticationUnavailable):
        assert is_refused(text, SHARED)


HEADERS = st.dictionaries(
    st.sampled_from(["alg", "kid", "typ", "crit", "jwk", "jku", "x5c", "b64", "cty", "other"]),
    st.one_of(
        st.none(), st.integers(), st.text(max_size=20), st.sampled_from(ALGORITHMS), st.lists(st.text(max_size=5))
    ),
)


@given(HEADERS, st.binary(max_size=64))
@settings(max_examples=300)
def test_no_header_makes_up_for_the_signature(header: dict[str, Any], signature: bytes) -> None:
    assert is_refused(unsigned(header, claims(), lambda _: signature), SHARED)


def test_verified_token_is_remembered_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = Clock(time.time())
    source = KeySetSource(Source(), lambda _: None)
    of = TokenVerifier(RULES, source, wall_clock=wall)
    text = token(exp=int(wall.now) + 10)

    async def called() -> list[bool]:
        found: list[bool] = []
        verified: list[str] = []
        decode = jwt.decode
        monkeypatch.setattr(jwt, "decode", lambda *args, **named: verified.append("") or decode(*args, **named))
        for seconds in (0.0, 1.0, 39.0, 41.0):
            wall.now = time.time() + seconds
            verified.clear()
            await of.caller(text.encode())
            found.append(bool(verified))
        return found

    # Its end and the tolerated difference are within the time for which tokens are remembered.
    assert VERIFIED_SECONDS > 40
    assert asyncio.run(called()) == [True, False, False, True]


def test_new_keys_end_remembered_tokens() -> None:
    read = Source()
    clock = Clock(0.0)
    source = KeySetSource(read, lambda _: None, clock=clock)
    of = TokenVerifier(RULES, source)
    text = token().encode()

    async def called() -> None:
        await of.caller(text)
        read.content = {"keys": [jwk_of("RS256")]}
        clock.now += RETRY_SECONDS
        await source.refresh()
        with pytest.raises(Unauthenticated):
            await of.caller(text)

    asyncio.run(called())


def test_unknown_key_is_looked_for_once_in_an_interval() -> None:
    """An unknown key is requested from the issuer at most once in an interval.

    A new key of the issuer is found at once, and tokens with invented keys cause no flood of requests.
    """
    read = Source({"keys": [jwk_of("RS256")]})
    clock = Clock(0.0)
    of = verifier(read, clock=clock)

    async def called() -> None:
        assert (await of.caller(token("RS256").encode())).name == "alice"
        clock.now += RETRY_SECONDS
        for number in range(100):
            with pytest.raises(Unauthenticated):
                await of.caller(token(header={"kid": f"invented {number}"}).encode())
        assert read.count == 2
        read.content = JWKS
        clock.now += RETRY_SECONDS
        assert (await of.caller(token("ES256").encode())).name == "alice"
        assert read.count == 3

    asyncio.run(called())


def test_failing_source_keeps_earlier_keys() -> None:
    read = Source()
    clock = Clock(0.0)
    reports: list[str] = []
    source = KeySetSource(read, reports.append, clock=clock)

    async def called() -> None:
        await source.refresh()
        read.content = InvalidKeySet("no answer")
        clock.now += RETRY_SECONDS
        await source.refresh()
        assert source.keys is not None
        clock.now += 86_401
        assert source.keys is None
        with pytest.raises(AuthenticationUnavailable):
            await TokenVerifier(RULES, source).caller(token().encode())
        read.content = JWKS
        clock.now += RETRY_SECONDS
        await source.refresh()

    asyncio.run(called())
    assert reports == ["no answer", ""]


SMALL = rsa.generate_private_key(65_537, 1_024)
BAD_SETS: dict[str, Any] = {
    "empty": b"",
    "no JSON": b"<html>",
    "no object": b"[]",
    "no keys": {},
    "keys in words": {"keys": "many"},
    "no list": {"keys": {"kty": "RSA"}},
    "empty list": {"keys": []},
    "deep": b'{"keys":' + b"[" * 50_000,
    "no members": {"keys": [{}, None, 7, "key"]},
    "symmetric": {"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]},
    "encryption": {"keys": [jwk_of("RS256", use="enc")]},
    "private": {"keys": [jwt.get_algorithm_by_name("RS256").to_jwk(PRIVATE["RS"], as_dict=True)]},
    "short": {"keys": [jwt.get_algorithm_by_name("RS256").to_jwk(SMALL.public_key(), as_dict=True)]},
    "other algorithm": {"keys": [jwk_of("RS256", alg="HS256")]},
    "algorithm none": {"keys": [jwk_of("RS256", alg="none")]},
    "curve of no algorithm": {"keys": [jwk_of("ES256", crv="secp256k1")]},
    "point off the curve": {"keys": [jwk_of("ES256", x="AAAA")]},
    "exponent of one": {"keys": [jwk_of("RS256", e="AQ")]},
    "numbers": {"keys": [jwk_of("RS256", n=7)]},
    "small order": {"keys": [jwk_of("EdDSA", x=encode_base64url(y.to_bytes(32, "little"))) for y in SMALL_ORDER]},
    "ten megabytes": b'{"keys":[' + b" " * 10 * 2**20 + b"]}",
}


@pytest.mark.parametrize("name", BAD_SETS)
def test_bad_key_sets_are_one_phrase(name: str) -> None:
    content = BAD_SETS[name]
    with pytest.raises(InvalidKeySet) as caught:
        read_key_set(content if isinstance(content, bytes) else json.dumps(content).encode())
    assert 0 < len(str(caught.value)) < 200


def test_bad_keys_stand_beside_good_ones() -> None:
    listed = [each for content in BAD_SETS.values() if isinstance(content, dict) for each in content.get("keys", ())]
    found = read_key_set(json.dumps({"keys": [*listed, *JWKS["keys"]]}).encode())
    assert {key.kid for key in found} == {"RS", "ES256", "ES384", "ES512", "EdDSA"}


Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def issuer(answer: Answer) -> Generator[str]:
    """Yield the address of an HTTP server whose every GET is answered by a function."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):
                answer(self)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/jwks"
    finally:
        server.shutdown()
        thread.join()
        server.socket.close()


def send(
    handler: BaseHTTPRequestHandler, pieces: list[bytes], status: int = 200, pause: float = 0.0, **headers: str
) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    for piece in pieces:
        handler.wfile.write(piece)
        time.sleep(pause)


def test_keys_are_read_from_an_address() -> None:
    with issuer(lambda handler: send(handler, [json.dumps(JWKS).encode()])) as url:
        assert caller(token(), verifier(AddressReader(url))).name == "alice"


BAD_ISSUERS: dict[str, tuple[Answer, str]] = {
    "ten megabytes": (lambda handler: send(handler, [b" " * 2**16] * 160), "longer than"),
    "slow": (lambda handler: send(handler, [b" "] * 1_000, pause=0.05), "does not answer within"),
    "no answer": (lambda _: time.sleep(1.5), "does not answer within"),
    "redirect": (lambda handler: send(handler, [], 302, Location="http://127.0.0.1:9/"), "status 302"),
    "error": (lambda handler: send(handler, [], 500), "status 500"),
    "page": (lambda handler: send(handler, [b"<html>"]), "not a JWK set"),
}


@pytest.mark.parametrize("name", BAD_ISSUERS)
def test_bad_issuers_are_one_phrase_and_soon(name: str) -> None:
    """Every bad answer of an issuer gives one phrase within the time limit, and the event loop goes on."""
    answer, phrase = BAD_ISSUERS[name]

    async def called() -> tuple[str, int]:
        with issuer(answer) as url:
            reports: list[str] = []
            source = KeySetSource(AddressReader(url, seconds=0.5), reports.append)
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            with pytest.raises(AuthenticationUnavailable):
                await asyncio.wait_for(TokenVerifier(RULES, source).caller(token().encode()), TEST_TIMEOUT)
            ticking.cancel()
            return reports[0], ticks

    reported, ticks = asyncio.run(called())
    assert phrase in reported
    assert "slow" not in name or ticks > 10


def test_address_without_a_server_is_one_phrase() -> None:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    with pytest.raises(InvalidKeySet, match="cannot be read: ConnectError"):
        asyncio.run(AddressReader(f"http://127.0.0.1:{port}/")())


def test_file_is_cut_after_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(b" " * 2 * LARGEST_SET_BYTES)
    with pytest.raises(InvalidKeySet, match="longer than"):
        read_key_set(FileReader(path).read())
    with pytest.raises(InvalidKeySet, match="No such file"):
        FileReader(tmp_path / "nothing").read()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"TOKEN_ISSUER": ISSUER}, "TOKEN_JWKS is not accepted: set PRIVACY_BOUNDS_TOKEN_ISSUER"),
        ({"TOKEN_JWKS": "/jwks.json"}, "TOKEN_JWKS is not accepted: set PRIVACY_BOUNDS_TOKEN_ISSUER"),
        ({"TOKEN_ISSUER": ISSUER, "TOKEN_AUDIENCE": "a", "TOKEN_JWKS": "http://issuer.example.com/"}, "https://"),
        ({"TOKEN_ISSUER": ISSUER, "TOKEN_AUDIENCE": "a", "TOKEN_JWKS": "jwks.json"}, "absolute path"),
        ({"TOKEN_ISSUER": ISSUER, "TOKEN_AUDIENCE": "a", "TOKEN_JWKS": "https://["}, "absolute path"),
        ({"TOKEN_ALGORITHMS": "HS256"}, "TOKEN_ALGORITHMS is not accepted"),
        ({"TOKEN_ALGORITHMS": "RS256,none"}, "TOKEN_ALGORITHMS is not accepted"),
        ({"TOKEN_CLOCK_SKEW_SECONDS": "301"}, "TOKEN_CLOCK_SKEW_SECONDS is not accepted"),
        ({"TOKEN_CLOCK_SKEW_SECONDS": "nan"}, "TOKEN_CLOCK_SKEW_SECONDS is not accepted"),
        ({"REQUIRE_AUTHENTICATION": "maybe"}, "REQUIRE_AUTHENTICATION is not accepted"),
        ({"KEYS_STORE": "table"}, "KEYS_STORE is not accepted"),
    ],
    ids=str,
)
def test_settings_that_would_weaken_tokens_are_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], sentence: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"PRIVACY_BOUNDS_{name}", value)
    with pytest.raises(ConfigurationError) as caught:
        read_settings()
    assert any(sentence in each for each in caught.value.args), caught.value.args


def test_settings_of_an_issuer_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ISSUER": ISSUER, "AUDIENCE": "a", "JWKS": "https://issuer.example.com/jwks"}.items():
        monkeypatch.setenv(f"PRIVACY_BOUNDS_TOKEN_{name}", value)
    monkeypatch.setenv("PRIVACY_BOUNDS_TOKEN_ALGORITHMS", "PS256, EdDSA")
    monkeypatch.setenv("PRIVACY_BOUNDS_API_KEY", "of a client on this machine")
    found = read_settings()
    assert isinstance(found, Settings)
    assert found.token_algorithms == ("PS256", "EdDSA")


def test_errors_of_access_have_no_detail() -> None:
    for sent in (b"x", b"a.b.c", token(aud="other").encode()):
        with pytest.raises(AccessError) as caught:
            caller(sent)
        assert str(caught.value) == ""
