"""Exit hook of the fork server of worker processes. Importing this module registers the hook; import it nowhere else.

The kernel kills the workers when the fork server ends, and the fork server ends with the service. The regular shutdown
of an interpreter with numeric libraries takes up to seconds on a busy machine, so the hook skips that shutdown.
"""

from __future__ import annotations

import atexit
import os

atexit.register(os._exit, 0)
