"""Scopes that the routes need. A route that is missing here cannot be served with authentication."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, final

from starlette.routing import compile_path

from api_schemas.signatures import KEY_SET_PATH
from service.access.caller import AccessScope
from service.resources.catalogue import resources

NeededScope: TypeAlias = AccessScope | Literal["open", "authenticated"]
"""Scope that a path needs. `open`: no credentials. `authenticated`: valid credentials with any scope."""

_FIXED: Final[Mapping[str, NeededScope]] = {
    # Pages, and what clients need before they have credentials.
    "/": "open",
    "/explorer/{build}/{path:path}": "open",
    "/openapi.json": "open",
    "/docs": "open",
    "/docs/{path:path}": "open",
    "/guide": "open",
    "/guide/{path:path}": "open",
    "/errata": "open",
    "/problems": "open",
    "/problems/{name}": "open",
    "/livez": "open",
    "/readyz": "open",  # its details need `metrics`
    "/v1/version": "open",
    KEY_SET_PATH: "open",
    "/.well-known/{path:path}": "open",
    "/v1/catalogue": "compute",
    "/v1/sources": "compute",
    "/v1/limits": "compute",
    "/v1/estimates": "compute",
    "/v1/results/{digest}": "compute",
    "/v1/decisions/{id}": "compute",
    "/v1/jobs": "jobs",
    "/v1/jobs/{job_id}": "jobs",
    "/v1/jobs/{job_id}/events": "jobs",
    "/v1/jobs/{job_id}/results": "jobs",
    "/metrics": "metrics",
    "/operate/jobs": "admin",
    "/operate/jobs/{job_id}": "admin",
}


OPTIONAL_SCOPES: Final[Mapping[str, AccessScope]] = {"/readyz": "metrics"}
"""Open routes of which a part needs a scope: the details of readiness."""


def route_scopes() -> dict[str, NeededScope]:
    """Return the scope of every route by its path, with parameters as the routes have them."""
    computed: dict[str, NeededScope] = {computation.path: "compute" for computation in resources()}
    return {**computed, **_FIXED}


@final
class ScopesOfPaths:
    """Access scopes that the paths of requests need.

    A path without a route needs credentials, so that nobody can probe for paths. Paths are compared by the patterns of
    the router, which ignore a line feed at the end. Texts compared as they are would give `/metrics%0A` the route of
    `/metrics` without its scope.
    """

    def __init__(self) -> None:
        table = route_scopes()
        self._exact: dict[str, NeededScope] = {path: needed for path, needed in table.items() if "{" not in path}
        self._patterns: list[tuple[re.Pattern[str], NeededScope]] = [
            (compile_path(path)[0], needed) for path, needed in table.items()
        ]

    def __call__(self, scope: Mapping[str, Any]) -> NeededScope:
        """Return the scope that the path of an ASGI request needs, or `authenticated` for a path without a route."""
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        found = self._exact.get(path)
        if found is not None:
            return found
        matching: list[NeededScope] = [needed for pattern, needed in self._patterns if pattern.match(path)]
        return matching[0] if matching else "authenticated"
