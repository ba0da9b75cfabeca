"""Route `GET /.well-known/privacy-bounds-keys`: public keys of signed statements."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from api_schemas.signatures import KEY_SET_PATH, KeySet
from service.api.dependencies import InjectedServices
from service.api.openapi.document import NOT_MODIFIED, problems
from service.api.responses import result_response

ONE_HOUR: Final = "public, max-age=3600"
"""Caching header. A new key signs after a restart, so that it should be published that long before it signs."""
NO_KEYS: Final[dict[str, list[Any]]] = {"keys": []}

router = APIRouter(tags=["signatures"])


@router.get(
    KEY_SET_PATH,
    response_model=KeySet,
    responses=NOT_MODIFIED | problems(500),
    name="public_keys",
)
async def public_keys(request: Request, services: InjectedServices) -> Response:
    """Return the public keys that verify signed statements, as a JSON Web Key Set.

    The set is empty if the service has no signing key. The first key signs, and further keys have signed before.
    """
    keys = NO_KEYS if services.signer is None else services.signer.keys.key_set
    body = json.dumps(keys).encode()
    tag = hashlib.sha256(body).hexdigest()[:32]
    return result_response(request, tag, body, {"ETag": f'"{tag}"', "Cache-Control": ONE_HOUR})
