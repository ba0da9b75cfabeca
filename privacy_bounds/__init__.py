"""Certified bounds on privacy attacks, computed by a service or in this process.

>>> from privacy_bounds import Client, Local
>>> run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
>>> epsilon = Local().epsilon(run, delta=1e-5)  # Client("http://127.0.0.1:8000").epsilon(...) uses a service.
>>> epsilon.lower <= epsilon.upper == epsilon.value
True

The run may also be a tuple `(noise multiplier, sampling rate, steps)`, or an accountant of Opacus (`engine.accountant`)
or of dp_accounting. It may be the `state_dict()` or the `history` of an accountant, or an event of dp_accounting.
`AsyncClient` has the same methods as coroutines.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privacy_bounds.api import Asking, Options, Run
from privacy_bounds.errors import (
    InvalidAnswer,
    InvalidArgument,
    NotInstalled,
    PrivacyBoundsError,
    Refused,
    Unreachable,
)
from privacy_bounds.series import Curves, Sweep, table
from privacy_bounds.values import Bounds, Columns, Number, Power

if TYPE_CHECKING:
    from privacy_bounds.asynchronous import AsyncClient
    from privacy_bounds.clients import Client
    from privacy_bounds.jobs import AsyncJob, Job
    from privacy_bounds.local import Local
    from privacy_bounds.pictures import Picture
    from privacy_bounds.reports import Assessment, Calibration, CheckedClaims, RunComparison

__all__ = [
    "Asking",
    "Assessment",
    "AsyncClient",
    "AsyncJob",
    "Bounds",
    "Calibration",
    "CheckedClaims",
    "Client",
    "Columns",
    "Curves",
    "InvalidAnswer",
    "InvalidArgument",
    "Job",
    "Local",
    "NotInstalled",
    "Number",
    "Options",
    "Picture",
    "Power",
    "PrivacyBoundsError",
    "Refused",
    "Run",
    "RunComparison",
    "Sweep",
    "Unreachable",
    "table",
]
_MODULES = {
    "Assessment": "reports",
    "AsyncClient": "asynchronous",
    "AsyncJob": "jobs",
    "Calibration": "reports",
    "CheckedClaims": "reports",
    "Client": "clients",
    "RunComparison": "reports",
    "Job": "jobs",
    "Local": "local",
    "Picture": "pictures",
}
"""Modules that are imported when their names are used, so that a program loads the client that it has."""


def __getattr__(name: str) -> Any:
    """Return the object with this name, whose module is imported on first use.

    Raise AttributeError for an unknown name.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
