"""Cost of credentials and of a limit on work: closed forms and cache hits, beside a service that has neither.

Both services run at the same time and are loaded in turns, so that ratios hold on a machine that is shared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from benchmarks.http.bodies import GAMMA, gaussian, same
from benchmarks.http.load import load
from benchmarks.http.server import SERVICE, Server, running
from benchmarks.report import Reach, Section, Table

ROUNDS: Final = 12
SECONDS: Final = 1.0
CONNECTIONS: Final = 16
MOST: Final = {"closed form": 0.15, "cache hit": 0.20}
"""Largest loss of throughput, as a share."""
AMPLE: Final = "1000000000000000/day"
"""Limit on work that no load reaches."""
ISSUER: Final = "https://issuer.example.com"


@dataclass(frozen=True)
class Pair:
    """Costs of checking credentials: loss of throughput and added CPU time per request, both as shares.

    They come from one round, which measures a server with and one without credentials.
    """

    throughput: float
    cpu: float


def measure() -> Section:
    section = Section("Credentials and limits on work")
    with TemporaryDirectory() as name:
        folder = Path(name)
        closed = {
            "PRIVACY_BOUNDS_REQUIRE_AUTHENTICATION": "true",
            "PRIVACY_BOUNDS_DATA_FOLDER": name,
            "PRIVACY_BOUNDS_WORK_LIMIT": AMPLE,
            **issuer_settings(folder),
        }
        credentials = {"API key": make_key(name), "token (RS256)": make_token(folder)}
        with running(SERVICE) as free, running(SERVICE, settings=closed) as asking:
            found = {
                (kind, what): compare(free, asking, text, repeats=kind == "cache hit")
                for kind in MOST
                for what, text in credentials.items()
            }
    rows: list[tuple[str, ...]] = []
    for (kind, what), pairs in found.items():
        lost, added = median(pair.throughput for pair in pairs), median(pair.cpu for pair in pairs)
        rows.append((kind, what, f"{lost:+.1%}", f"{added:+.1%}"))
        section.reaches.append(
            Reach(f"loss of throughput, {kind}, {what}", f"<= {MOST[kind]:.0%}", f"{lost:.1%}", lost <= MOST[kind])
        )
    section.tables.append(
        Table(
            f"With credentials and a limit beside without, {CONNECTIONS} connections, medians of {ROUNDS} rounds",
            ("request", "credentials", "loss of throughput", "added CPU per request"),
            rows,
        )
    )
    return section


def compare(free: Server, asking: Server, text: str, *, repeats: bool) -> list[Pair]:
    """Load a server without and one with credentials in turns, and return the ratios of each round.

    A round measures each server once. `free` needs no credentials, `asking` receives the key `text`. The server that is
    measured first changes from round to round.
    """
    header = f"Authorization: Bearer {text}\r\n".encode()
    pairs: list[Pair] = []
    for place in range(ROUNDS):
        bodies: Iterator[bytes] = same(gaussian(GAMMA)) if repeats else gaussian(GAMMA)
        turns = [(free, b""), (asking, header)]
        cells = [_cell(server, bodies, line) for server, line in (turns if place % 2 else turns[::-1])]
        (rate, cpu), (their_rate, their_cpu) = cells if place % 2 else cells[::-1]
        pairs.append(Pair(1 - their_rate / rate, their_cpu / cpu - 1))
    return pairs


def _cell(server: Server, bodies: Iterator[bytes], header: bytes) -> tuple[float, float]:
    before = server.cpu_seconds()
    found = load(server.port, bodies, connections=CONNECTIONS, seconds=SECONDS, header=header)
    return found.rate, (server.cpu_seconds() - before) / len(found.latencies)


def make_key(folder: str) -> str:
    """Create an API key in the folder by the command `privacy-bounds keys`, and return its text."""
    command = [*SERVICE[:-2], "keys", "create", "--scope", "compute"]
    settings = {"PRIVACY_BOUNDS_DATA_FOLDER": folder}
    made = subprocess.run(command, env=os.environ | settings, check=True, capture_output=True, text=True)
    return made.stdout.strip()


def issuer_settings(folder: Path) -> dict[str, str]:
    """Return the settings of a service that accepts tokens of an issuer.

    The public keys of the issuer are in a file of the folder.
    """
    return {
        "PRIVACY_BOUNDS_TOKEN_ISSUER": ISSUER,
        "PRIVACY_BOUNDS_TOKEN_AUDIENCE": "benchmark",
        "PRIVACY_BOUNDS_TOKEN_JWKS": str(folder / "jwks.json"),
    }


def make_token(folder: Path) -> str:
    """Write a new public key as a JSON Web Key set into the folder, and return a token that the key verifies."""
    key = rsa.generate_private_key(65_537, 2_048)
    public = jwt.get_algorithm_by_name("RS256").to_jwk(key.public_key(), as_dict=True)
    (folder / "jwks.json").write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))
    claims = {"iss": ISSUER, "aud": "benchmark", "sub": "load", "exp": int(time.time()) + 3_600, "scope": "compute"}
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "one"})


if __name__ == "__main__":
    sys.stdout.write(measure().markdown() + "\n")
