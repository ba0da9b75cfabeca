"""Check that a request has no query parameter that its route does not know."""

from __future__ import annotations

from typing import Final

from fastapi import Depends, Request
from fastapi.routing import APIRoute

from api_schemas.problems import LONGEST_NAME, suggestion
from service.problems import InvalidParameter

MOST_NAMED: Final = 5
"""Maximal number of unknown parameters that one problem names."""


async def _reject_unknown_parameters(request: Request) -> None:
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = [field.alias for field in route.dependant.query_params]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        names = ", ".join(name[:LONGEST_NAME] for name in unknown[:MOST_NAMED])
        kind = "Unknown parameter." if len(unknown) == 1 else "Unknown parameters."
        takes = f"The parameters are: {', '.join(known)}." if known else "This path takes no query parameters."
        raise InvalidParameter(names, f"{kind} {suggestion(unknown[0], known)}{takes}")


KNOWN_PARAMETERS_ONLY: Final = (Depends(_reject_unknown_parameters),)
"""Dependencies of the routes that programs call. Pages ignore unknown parameters, since browsers and links add some.
Probes ignore them too: a probe that fails because of a parameter would restart a service in order.
"""
