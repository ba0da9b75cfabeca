"""Certified bounds on privacy attacks, computed by a service or in this process.

>>> from privacy_bounds import Client, Local
>>> run = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
>>> epsilon = Local().epsilon(run, delta=1e-5)  # Client("http://127.0.0.1:8000").epsilon(...) uses a service
>>> epsilon.lower <= epsilon.upper == epsilon.value
True

A run may also be an accountant of Opacus (`engine.accountant`), its `state_dict()` or its `history`, or an event of
dp_accounting. `AsyncClient` has the same methods as coroutines.
"""

from privacy_bounds.api import Asking, Options, Run
from privacy_bounds.clients import AsyncClient, Client, Local
from privacy_bounds.errors import PrivacyBoundsError, Refused, Unreachable
from privacy_bounds.jobs import Job
from privacy_bounds.values import Bounds, Columns, Number, Power, Sweep, table

__all__ = [
    "Asking",
    "AsyncClient",
    "Bounds",
    "Client",
    "Columns",
    "Job",
    "Local",
    "Number",
    "Options",
    "Power",
    "PrivacyBoundsError",
    "Refused",
    "Run",
    "Sweep",
    "Unreachable",
    "table",
]
