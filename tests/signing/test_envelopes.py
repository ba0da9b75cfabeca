"""An envelope has exactly one sequence of bytes: no other one is verified."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785

from service.signing.envelope import encode_for_signature, sign_payload
from service.signing.errors import NotSignable, NotVerified, SigningError, Unreadable
from service.signing.size_limit import LARGEST_ENVELOPE
from service.signing.verification import read_file, verify_file
from tests.signing.statements import (
    assessment,
    bounds_envelope,
    key_set,
    keys,
    private_key,
    signed_report,
    signer,
)
from tests.slow_marker import thorough

KEYS = key_set(1)


def signed(payload: bytes) -> bytes:
    """Return an envelope with a valid signature of any payload."""
    return sign_payload(payload, keys(1))


def payload() -> dict[str, Any]:
    return json.loads(base64.b64decode(json.loads(bounds_envelope())["payload"]))


def changed(edit: Callable[[dict[str, Any]], object]) -> bytes:
    """Return the signed statement of `bounds_envelope` with an edit of its payload, in canonical form."""
    members = payload()
    edit(members)
    return rfc8785.dumps(members)


def test_signature_is_that_of_the_dsse_specification() -> None:
    """The library verifies a signature over the bytes that the test builds from the DSSE specification."""
    envelope = json.loads(bounds_envelope())
    body = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"]
    encoded = f"DSSEv1 {len(kind)} {kind} {len(body)} ".encode() + body
    assert encode_for_signature(body) == encoded
    private_key(1).public_key().verify(base64.b64decode(envelope["signatures"][0]["sig"]), encoded)
    assert rfc8785.dumps(envelope) == bounds_envelope()
    assert rfc8785.dumps(json.loads(body)) == body


def test_statement_is_an_in_toto_statement_about_request_and_answer() -> None:
    named, answer = assessment()
    envelope = signer().sign_answer("answer", named, answer)
    statement = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert [(each["name"], each["digest"]["sha256"]) for each in statement["subject"]] == [
        ("request", hashlib.sha256(named).hexdigest()),
        ("answer", hashlib.sha256(answer).hexdigest()),
    ]
    predicate = statement["predicate"]
    assert predicate["answer"] == json.loads(answer)
    assert {name: predicate[name] for name in ("engine_version", "request", "resource")} == json.loads(named)
    assert predicate["policy"]["name"] == "gate"
    assert [each["by"] for each in predicate["attestations"]] == ["J. Doe"]
    assert predicate["key_id"] == json.loads(envelope)["signatures"][0]["keyid"]


def doubles() -> list[float]:
    """Return doubles of every size and both signs, and those beside the limits of the canonical form."""
    draw = random.Random(8785)
    drawn = [math.ldexp(draw.uniform(0.5, 1), exponent) for exponent in range(-1074, 1025)]
    limits = [1e-7, 1e-6, 1e-4, 2.0**53, 1e15, 1e16, 1e20, 1e21, 1e22]
    beside = [math.nextafter(each, towards) for each in limits for towards in (0, math.inf)]
    whole = [float(draw.randrange(2**53, 10**21)) for _ in range(300)]
    return [sign * each for each in (0.0, *drawn, *limits, *beside, *whole) for sign in (1, -1)]


def test_every_double_survives_the_canonical_form() -> None:
    """Doubles from 2^53 to 1e21 look like integers there, which the canonical form writes as strings."""
    body = changed(lambda members: members["predicate"]["answer"].update(doubles=doubles(), whole=str(2**63)))
    statement = verify_file(signed(body), KEYS)
    assert statement.answer["doubles"] == doubles()
    assert {type(each) for each in statement.answer["doubles"] if abs(each) >= 2**53} == {float}
    assert statement.answer["whole"] == str(2**63)
    assert statement.encode() == body


@pytest.mark.parametrize("digits", ["9007199254740993", "12345678901234567001", "1" + "0" * 21, "9" * 400])
def test_integers_that_are_no_shortest_form_of_a_double_are_unreadable(digits: str) -> None:
    """An envelope with an integer that is not the shortest form of its double is unreadable.

    Otherwise one statement would have several envelopes.
    """
    body = changed(lambda members: members["predicate"]["answer"].update(number="digits"))
    with pytest.raises(Unreadable, match="canonical form"):
        verify_file(signed(body.replace(b'"number":"digits"', b'"number":' + digits.encode())), KEYS)


@pytest.mark.parametrize("count", [1_000, thorough(100_000)])
def test_no_changed_byte_is_verified(count: int) -> None:
    draw = random.Random(count)
    files = [bounds_envelope(), signer().sign_answer("answer", *assessment()), signed_report()]
    assert [verify_file(file, KEYS).kind for file in files] == ["answer", "answer", "report"]
    verified = 0
    for number in range(count):
        file = bytearray(files[number % len(files)])
        place = draw.randrange(len(file))
        file[place] ^= draw.randrange(1, 256)
        try:
            verify_file(bytes(file), KEYS)
            verified += 1
        except SigningError:
            continue
    assert verified == 0


@pytest.mark.parametrize("count", [150, thorough(10_000)])
def test_no_shortened_or_lengthened_file_is_verified(count: int) -> None:
    draw = random.Random(count)
    for number in range(count):
        file = (bounds_envelope(), signed_report())[number % 2]
        place = draw.randrange(len(file) + 1)
        longer = file[:place] + bytes([draw.choice(b' \n\t"},0a=\xff')]) + file[place:]
        shorter = file[:place] + file[place + draw.randrange(1, 4) :]
        for other in (longer, shorter) if place < len(file) else (longer,):
            with pytest.raises(SigningError):
                verify_file(other, KEYS)


def test_signature_of_another_statement_is_not_verified() -> None:
    one, other = json.loads(bounds_envelope()), json.loads(signer().sign_answer("answer", *assessment()))
    one["signatures"] = other["signatures"]
    with pytest.raises(NotVerified, match="not that of this statement"):
        verify_file(rfc8785.dumps(one), KEYS)


def test_signature_by_another_key_is_not_verified() -> None:
    with pytest.raises(NotVerified, match="not among the given keys"):
        verify_file(bounds_envelope(), key_set(2))
    renamed = json.loads(bounds_envelope())
    renamed["signatures"][0]["keyid"] = keys(2).id
    with pytest.raises(NotVerified, match="not that of this statement"):
        verify_file(rfc8785.dumps(renamed), key_set(1, 2))


def test_key_inside_the_statement_must_be_the_key_of_the_signature() -> None:
    other = changed(lambda members: members["predicate"].update(key_id=keys(2).id))
    with pytest.raises(NotVerified, match="another key"):
        verify_file(signed(other), key_set(1, 2))


def test_statements_by_earlier_keys_stay_verified_after_rotation() -> None:
    rotated = signer(2, 1)
    assert json.loads(rotated.sign_answer("answer", *assessment()))["signatures"][0]["keyid"] == keys(2).id
    for file in (bounds_envelope(), rotated.sign_answer("answer", *assessment())):
        verify_file(file, key_set(2, 1))
    with pytest.raises(NotVerified):
        verify_file(bounds_envelope(), key_set(2))


def text(name: str) -> str:
    value: str = json.loads(bounds_envelope())[name]
    return value


FORMS: dict[str, Callable[[], bytes]] = {
    "whitespace": lambda: json.dumps(json.loads(bounds_envelope())).encode(),
    "trailing newline": lambda: bounds_envelope() + b"\n",
    "other order": lambda: json.dumps(
        dict(reversed(json.loads(bounds_envelope()).items())), separators=(",", ":")
    ).encode(),
    "unknown member": lambda: rfc8785.dumps(json.loads(bounds_envelope()) | {"zzz": 1}),
    "duplicate member": lambda: bounds_envelope()[:-1] + b',"payloadType":"application/vnd.in-toto+json"}',
    "unknown member of the signature": lambda: bounds_envelope().replace(b'"sig":', b'"cert":"","sig":'),
    "two signatures": lambda: rfc8785.dumps(
        json.loads(bounds_envelope()) | {"signatures": json.loads(bounds_envelope())["signatures"] * 2}
    ),
    "no signature": lambda: rfc8785.dumps(json.loads(bounds_envelope()) | {"signatures": []}),
    "payload without padding": lambda: rfc8785.dumps(
        json.loads(bounds_envelope()) | {"payload": base64.b64encode(b"1").decode().rstrip("=")}
    ),
    "payload with more padding": lambda: bounds_envelope().replace(b'","payloadType', b'=","payloadType'),
    "payload with a line break": lambda: bounds_envelope().replace(b'"payload":"', b'"payload":"\\n'),
    "payload with an escape": lambda: bounds_envelope().replace(b'"payload":"e', b'"payload":"\\u0065'),
    "payload in base64url": lambda: rfc8785.dumps(
        json.loads(bounds_envelope())
        | {"payload": base64.urlsafe_b64encode(b"\xff\xfe\xfd" + base64.b64decode(text("payload"))).decode()}
    ),
    "signature with unused bits": lambda: (
        bounds_envelope()
        .replace(b'=="}]}', b'=="}]}')
        .replace(
            json.loads(bounds_envelope())["signatures"][0]["sig"][-3:].encode(),
            bytes([json.loads(bounds_envelope())["signatures"][0]["sig"].encode()[-3] + 1]) + b"==",
        )
    ),
    "another payload type": lambda: bounds_envelope().replace(b"vnd.in-toto+json", b"vnd.in-toto.json"),
    "payload that is a number": lambda: rfc8785.dumps(json.loads(bounds_envelope()) | {"payload": 1}),
    "array": lambda: b"[]",
    "text": lambda: b'"DSSE"',
    "nothing": lambda: b"",
    "byte order mark": lambda: b"\xef\xbb\xbf" + bounds_envelope(),
    "UTF-16": lambda: bounds_envelope().decode().encode("utf-16"),
    "not a number": lambda: b'{"payload":NaN,"payloadType":"","signatures":[]}',
    "surrogate": lambda: b'{"payload":"\\ud800","payloadType":"","signatures":[]}',
    "long number": lambda: b'{"payload":' + b"9" * 100_000 + b',"payloadType":"","signatures":[]}',
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_an_envelope_are_unreadable(form: str) -> None:
    file = FORMS[form]()
    assert file != bounds_envelope()
    for read in (lambda: verify_file(file, KEYS), lambda: read_file(file)):
        with pytest.raises(Unreadable):
            read()


EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "unknown member": lambda members: members.update(extra=1),
    "unknown member of the predicate": lambda members: members["predicate"].update(extra=1),
    "missing member": lambda members: members["predicate"].pop("policy"),
    "another kind": lambda members: members["predicate"].update(kind="opinion"),
    "kind that is a list": lambda members: members["predicate"].update(kind=["answer"]),
    "another type of statement": lambda members: members.update(_type="https://in-toto.io/Statement/v0.1"),
    "another predicate": lambda members: members.update(predicateType="https://slsa.dev/provenance/v1"),
    "third subject": lambda members: members["subject"].append(members["subject"][0]),
    "other order of subjects": lambda members: members["subject"].reverse(),
    "subjects that are a number": lambda members: members.update(subject=7),
    "second digest of a subject": lambda members: members["subject"][0]["digest"].update(sha1="0" * 40),
    "digest in capitals": lambda members: members["subject"][1]["digest"].update(sha256="A" * 64),
    "another digest of the request": lambda members: members["subject"][0]["digest"].update(sha256="0" * 64),
    "another request": lambda members: members["predicate"]["request"]["mechanism"].update(noise_multiplier=3),
    "another resource": lambda members: members["predicate"].update(resource="curves"),
    "another engine version": lambda members: members["predicate"].update(engine_version="2027.1.1"),
    "policy that the request does not have": lambda members: members["predicate"].update(policy={"name": "gate"}),
    "attestations that the request does not have": lambda members: members["predicate"].update(attestations=[{}]),
    "answer to another request": lambda members: members["predicate"]["answer"].update(digest="sha256:" + "0" * 64),
    "answer of another engine": lambda members: members["predicate"]["answer"].update(engine_version="1"),
    "answer that is a text": lambda members: members["predicate"].update(answer="4.1"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_statements_that_contradict_themselves_are_unreadable(edit: str) -> None:
    """Statements that contradict themselves are unreadable although the right key signed them."""
    with pytest.raises(Unreadable):
        verify_file(signed(changed(EDITS[edit])), KEYS)


@pytest.mark.parametrize(
    "other",
    [
        lambda body: body.replace(b'{"_type"', b'{ "_type"'),
        lambda body: body.replace(b'"noise_multiplier":2', b'"noise_multiplier":2.0'),
        lambda body: body.replace(b'"kind":"answer"', b'"kind":"answer","kind":"answer"'),
        lambda body: body.replace(b'"kind":"answer"', b'"kind":"\\u0061nswer"'),
        lambda body: body.replace(b'"noise_multiplier":2', b'"noise_multiplier":2e0'),
        lambda body: body + b" ",
    ],
)
def test_other_forms_of_a_statement_are_unreadable(other: Callable[[bytes], bytes]) -> None:
    body = changed(lambda _: None)
    assert other(body) != body
    with pytest.raises(Unreadable, match="canonical form"):
        verify_file(signed(other(body)), KEYS)


def test_statement_of_a_later_form_asks_for_a_newer_version() -> None:
    later = changed(lambda members: members.update(predicateType="urn:privacy-bounds:predicate:v2", more=[1]))
    with pytest.raises(Unreadable, match="newer form than this version reads; install a newer privacy-bounds"):
        verify_file(signed(later), KEYS)


@pytest.mark.parametrize(
    "file",
    [
        b"[" * 10_000_000,
        b'{"payload":' * 900_000,
        b'{"payload":"' + b"A" * 10_000_000 + b'","payloadType":"application/vnd.in-toto+json","signatures":[]}',
        b"<" + b'<footer class="signature">' * 400_000,
        b"\x00" * 10_000_000,
        b"1" * 10_000_000,
        b'{"a":1,' * 1_500_000,
    ],
    ids=["arrays", "objects", "payload", "page", "zeros", "digits", "members"],
)
def test_ten_megabytes_of_anything_are_refused_soon(file: bytes) -> None:
    started = time.process_time()
    with pytest.raises(Unreadable) as caught:
        verify_file(file, KEYS)
    assert time.process_time() - started < 2
    assert len(caught.value.sentence) < 200


def test_deep_statements_are_refused() -> None:
    for depth in (150, 300, 100_000):
        deep = changed(lambda members: members["predicate"]["request"].update(deep="HERE"))
        nested = deep.replace(b'"HERE"', b"[" * depth + b"]" * depth)
        with pytest.raises(Unreadable):
            verify_file(signed(nested), KEYS)


def test_envelopes_are_limited_in_length() -> None:
    with pytest.raises(Unreadable, match="bytes"):
        verify_file(b" " * (LARGEST_ENVELOPE + 1), KEYS)
    for sign in (
        lambda: sign_payload(b"x" * LARGEST_ENVELOPE, keys(1)),
        lambda: signer().sign_answer("answer", b"{" * LARGEST_ENVELOPE, b"{}"),
    ):
        with pytest.raises(NotSignable, match="too long"):
            sign()
