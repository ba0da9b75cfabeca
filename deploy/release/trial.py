"""Trial of a built wheel in an environment of its own: version, one bound, one served request."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

from deploy.release.locked import RUNTIME
from deploy.release.provenance import sha256_of

RUN: Final = {"type": "dpsgd", "noise_multiplier": 1.1, "sample_rate": 0.004, "steps": 3000}
BODY: Final = {"mechanism": RUN, "questions": [{"type": "epsilon", "delta": 1e-5}]}
LOCAL: Final = f"from privacy_bounds import Local; print(Local().epsilon({RUN}, delta=1e-5).value)"
START_SECONDS: Final = 240


class TrialFailed(Exception):
    """Raised if the installed wheel or the image does not do what a release has to do."""


def install(wheel: Path, folder: Path) -> Path:
    """Install the locked packages and the wheel into a new environment by their hashes, and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    interpreter = folder / "bin/python"
    pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--require-hashes"]
    subprocess.run([*pip, "--only-binary", ":all:", "--requirement", str(RUNTIME)], check=True)
    named = folder / "wheel.txt"
    named.write_text(f"privacy-bounds @ {wheel.resolve().as_uri()} --hash=sha256:{sha256_of(wheel)}\n", "utf-8")
    subprocess.run([*pip, "--no-deps", "--no-index", "--requirement", str(named)], check=True)
    return interpreter


def surroundings() -> dict[str, str]:
    """Return the environment variables of this process without those that make a checkout or its settings visible."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PRIVACY_"))}


def output_of(command: list[str], folder: str) -> str:
    """Run a command in the folder and return what it prints. Raise TrialFailed if it fails."""
    ended = subprocess.run(command, cwd=folder, env=surroundings(), capture_output=True, text=True, check=False)
    if ended.returncode:
        raise TrialFailed(f"{' '.join(command[1:])}: {ended.stderr.strip() or ended.returncode}")
    return ended.stdout.strip()


def fetch(address: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Send a request to a service on this machine, and return its JSON answer. `body` None sends GET."""
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(address, content, {"Content-Type": "application/json"}), timeout=START_SECONDS) as answer:
        return json.loads(answer.read())


def served_answers(address: str, has_ended: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Wait for a service to start, and return its versions and its answer to the request BODY.

    `has_ended` is called between two attempts, and returns true if the service is gone.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return fetch(f"{address}/v1/version"), fetch(f"{address}/v1/bounds", BODY)
        except (URLError, ConnectionError, OSError) as error:
            if has_ended() or time.monotonic() > deadline:
                raise TrialFailed(f"The service does not answer: {error}") from error
            time.sleep(0.2)


def free_port() -> int:
    """Return a port of the loopback address on which nothing listens."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def try_wheel(interpreter: Path, version: str) -> float:
    """Try the wheel that `interpreter` has installed, and return epsilon of the run RUN.

    Raise TrialFailed where an answer is not as it has to be.
    """
    command = str(interpreter.with_name("privacy-bounds"))
    with tempfile.TemporaryDirectory() as folder:
        printed = output_of([command, "--version"], folder)
        if not printed.startswith(f"privacy-bounds {version}"):
            raise TrialFailed(f"--version prints {printed!r}, and the release is {version}.")
        local = float(output_of([str(interpreter), "-c", LOCAL], folder))
        port = free_port()
        words = [command, "serve", "--port", str(port)]
        with subprocess.Popen(words, cwd=folder, env=surroundings(), stderr=subprocess.DEVNULL) as process:
            try:
                versions, answer = served_answers(f"http://127.0.0.1:{port}", lambda: process.poll() is not None)
            finally:
                process.terminate()
    check_answers(versions, answer, version, local)
    return local


def check_answers(versions: dict[str, Any], answer: dict[str, Any], version: str, local: float) -> None:
    """Raise TrialFailed if a service has another version than `version`, or another number than `local`.

    `local` is the answer of `Local()`, the client in the same process.
    """
    served = answer["answers"][0]["value"]
    if versions["version"] != version or served != local:
        raise TrialFailed(f"The service is {versions['version']} and answers {served}; expected {version} and {local}.")
