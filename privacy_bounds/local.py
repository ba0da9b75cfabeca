"""Client that computes in this process."""

from __future__ import annotations

from types import ModuleType
from typing import final

from typing_extensions import override

from privacy_bounds.api import Asking
from privacy_bounds.calls import JSON
from privacy_bounds.errors import InvalidArgument, NotInstalled, Refused


@final
class Local(Asking):
    """Client that computes in this process, with the same response bytes as a service. Costs are not limited.

    The numeric core is loaded when the client is made. Raise NotInstalled without the extra `[local]`.
    """

    def __init__(self) -> None:
        _import_core()

    @override
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        core = _import_core()
        try:
            computation = core.resource_by_path(path)
        except ValueError as error:
            raise InvalidArgument(str(error)) from None
        found = core.evaluate(computation, body, instance=path)
        if isinstance(found, bytes) and media_type != JSON:
            found = core.represent(computation, found, media_type, instance=path)
        if not isinstance(found, bytes):
            raise Refused(found)
        return found


def _import_core() -> ModuleType:
    try:
        from service.command import in_process
    except ImportError as error:
        raise NotInstalled(
            f"Local needs the numeric core ({error}). Install the extra 'local': pip install "
            "'/path/to/privacy-bounds[local]', the folder of the source or a wheel file. Client needs a service only."
        ) from error
    return in_process
