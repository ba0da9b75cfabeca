"""`privacy-bounds verify` and `replay` say in one sentence what they found, and exit with 0, 1 or 2."""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from api_schemas.bounds import BoundsRequest
from service.command.main import main
from service.engine_version import ENGINE_VERSION
from service.execution.quarantine import ResultQuarantine
from service.importers.catalogue import validate_with_imports
from service.rendering.tables.sweeps import to_json_lines
from service.resources.digest import canonical_bytes
from service.resources.disputed import run_digest
from service.resources.sweeps.sweeping import SWEEPS
from service.signing.envelope import sign_payload
from service.signing.verification import read_file
from tests.signing.statements import (
    GAUSSIAN,
    assessment,
    bounds_envelope,
    keys,
    pem,
    signed_report,
    signer,
    write,
    write_keys,
)

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("verification uses no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def run(capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_verified_envelope_is_described(tmp_path: Path, capsys: Captured) -> None:
    file = write(tmp_path, "answer.json", bounds_envelope())
    code, out, err = run(capsys, "verify", file, "--keys", write_keys(tmp_path, 1))
    found = read_file(bounds_envelope())
    assert (code, err) == (0, "")
    assert out == (
        f"verified: answer of bounds, engine {ENGINE_VERSION}, request sha256:{found.request_sha256}, "
        f"answer sha256:{found.answer_sha256}, key {keys(1).id}.\n"
    )


def test_verified_report_is_described(tmp_path: Path, capsys: Captured) -> None:
    file = write(tmp_path, "report.html", signed_report())
    code, out, _ = run(capsys, "verify", file, "--keys", write_keys(tmp_path, 2, 1))
    assert code == 0
    assert out.startswith("verified: report of assessments")
    assert f"report sha256:{read_file(signed_report()).report_sha256}" in out


def test_standard_input_is_read(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(bounds_envelope())))
    assert run(capsys, "verify", "-", "--keys", write_keys(tmp_path, 1))[0] == 0


@pytest.mark.parametrize(
    ("content", "numbers", "code", "sentence"),
    [
        (bounds_envelope().replace(b'"sig":"', b'"sig":"A', 1), (1,), 2, "canonical base64"),
        (bounds_envelope(), (2,), 1, "is not verified: the key of the signature is not among the given keys"),
        (bounds_envelope(), (), 1, "is not verified: the key of the signature is not among the given keys"),
        (signed_report().replace(b"Engine", b"engine"), (1,), 1, "differs from the one that was signed"),
        (b"", (1,), 2, "it is not JSON"),
        (b"%PDF-1.7", (1,), 2, "it is not JSON"),
        (assessment()[1], (1,), 2, "is no DSSE envelope"),
        (b"<html></html>", (1,), 2, "has no signature"),
    ],
)
def test_files_that_are_not_verified(
    content: bytes, numbers: tuple[int, ...], code: int, sentence: str, tmp_path: Path, capsys: Captured
) -> None:
    public = write_keys(tmp_path, *numbers) if numbers else write(tmp_path, "keys.json", b'{"keys": []}')
    found, out, err = run(capsys, "verify", write(tmp_path, "file", content), "--keys", public)
    assert (found, out) == (code, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_unreadable_files_are_named(tmp_path: Path, capsys: Captured) -> None:
    file, public = write(tmp_path, "answer.json", bounds_envelope()), write_keys(tmp_path, 1)
    missing = str(tmp_path / "missing")
    for arguments in ((missing, public), (file, missing), (str(tmp_path), public), (file, str(tmp_path))):
        code, out, err = run(capsys, "verify", arguments[0], "--keys", arguments[1])
        assert (code, out) == (2, "")
        assert "cannot read" in err
        assert err.count("\n") == 1
    code, _, err = run(capsys, "verify", file, "--keys", write(tmp_path, "key.pem", pem(1)))
    assert code == 2
    assert "key.pem: the file of public keys is not JSON" in err


def sweep_job(signed: dict[str, Any]) -> bytes:
    """Return the signed statement about the results of a job with this sweep."""
    request = validate_with_imports(SWEEPS.request_type, json.dumps(signed).encode())
    body = SWEEPS.body(request, "sha256:" + "0" * 64, ENGINE_VERSION)
    lines = to_json_lines(SWEEPS.response_type.model_validate_json(body)).encode()
    return signer().sign_answer("job", canonical_bytes("sweeps", ENGINE_VERSION, request), lines)


SWEPT: dict[str, Any] = {**GAUSSIAN, "vary": {"/mechanism/noise_multiplier": {"values": [2.0, 3.0]}}}


@pytest.mark.parametrize("noise", [2.0, 3.0, 8.0])
def test_a_disputed_number_is_reported(noise: float, tmp_path: Path, capsys: Captured) -> None:
    """Every kind of statement with a number of the disputed run ends with 1, and other statements stay as they are."""
    quarantine, threat = tmp_path / "quarantined_results", {"type": "worst_case"}
    run_of = BoundsRequest.model_validate_json(
        json.dumps({**GAUSSIAN, "mechanism": {"type": "gaussian", "noise_multiplier": noise}, "threat_model": threat})
    )
    digest = run_digest(ENGINE_VERSION, run_of.mechanism, run_of.threat_model)
    ResultQuarantine(quarantine).add("sha256:" + "0" * 64, "two engines", digest)
    statements = {
        "answer.json": (bounds_envelope(), {2.0}),
        "report.html": (signed_report(), {8.0}),
        "job.json": (sweep_job(SWEPT), {2.0, 3.0}),
    }
    for name, (content, noises) in statements.items():
        file = write(tmp_path, name, content)
        public = write_keys(tmp_path, 1)
        for command in (["verify", file, "--keys", public], ["replay", file]):
            code, out, err = run(capsys, *command, "--quarantine", str(quarantine))
            assert code == int(noise in noises), (name, err)
            assert ("two independent engines dispute" in err) == (noise in noises)
            assert bool(out) == (noise not in noises)
            assert run(capsys, *command)[0] == 0
    code, _, err = run(capsys, "replay", write(tmp_path, "a.json", bounds_envelope()), "--quarantine", "missing")
    assert (code, "cannot read missing" in err) == (2, True)


def test_replay_of_an_equal_answer(tmp_path: Path, capsys: Captured) -> None:
    for name, content in (("answer.json", bounds_envelope()), ("report.html", signed_report())):
        code, out, err = run(capsys, "replay", write(tmp_path, name, content))
        assert (code, err) == (0, "")
        assert out.startswith("equal: ")
        assert f"replayed by engine {ENGINE_VERSION}" in out
        assert "signature" not in out
    code, out, _ = run(capsys, "replay", str(tmp_path / "answer.json"), "--keys", write_keys(tmp_path, 1))
    assert code == 0
    assert out.endswith("whose signature is verified.\n")


def archive(tmp_path: Path, **changes: Any) -> str:
    """Write the statement of a short answer with another answer, as an earlier engine would have computed it."""
    old = read_file(signer().sign_answer("answer", *_older()))
    answer = json.loads(json.dumps(old.answer))
    answer["answers"][0] |= changes
    values = {name: getattr(old, name) for name in type(old).__slots__} | {"answer": answer}
    return write(tmp_path, "old.json", sign_payload(type(old)(**values).encode(), keys(1)))


def _older() -> tuple[bytes, bytes]:
    from tests.signing.statements import GAUSSIAN, answered

    return answered("bounds", json.dumps(GAUSSIAN).encode(), "2025.1.1")


def test_replay_of_a_moved_answer(tmp_path: Path, capsys: Captured) -> None:
    code, out, _ = run(capsys, "replay", archive(tmp_path, lower=0.5))
    assert code == 0
    assert "1 of " in out
    assert "moved, by at most " in out
    assert "at /answers/0/lower; 1 of 1 enclosure meet; replayed by engine" in out


def test_replay_of_a_contradicting_answer(tmp_path: Path, capsys: Captured) -> None:
    code, out, _ = run(capsys, "replay", archive(tmp_path, lower=0.1, upper=0.2))
    assert code == 1
    assert "0 of 1 enclosure meet; at /answers/0/lower the archived one is [0.1, 0.2], now it is [" in out


def test_replay_verifies_first_when_keys_are_given(tmp_path: Path, capsys: Captured) -> None:
    code, out, err = run(capsys, "replay", archive(tmp_path, lower=0.5), "--keys", write_keys(tmp_path, 2))
    assert (code, out) == (1, "")
    assert "not among the given keys" in err


def test_archive_of_a_newer_engine_is_named(tmp_path: Path, capsys: Captured) -> None:
    from tests.signing.statements import GAUSSIAN, answered

    newer = signer().sign_answer("answer", *answered("bounds", json.dumps(GAUSSIAN).encode(), "2999.1.1"))
    code, out, err = run(capsys, "replay", write(tmp_path, "newer.json", newer))
    assert (code, out) == (2, "")
    assert f"is of engine 2999.1.1, which is newer than this one, {ENGINE_VERSION}; install that version" in err
    assert err.count("\n") == 1
