"""Loaded in the fork server of worker processes, and nowhere else: the one module that does something when imported.

Workers are killed by the kernel when the fork server has ended, which it does when the service has. Taking down an
interpreter with the numeric libraries in it takes up to seconds on a busy machine; nothing in it is worth that wait.
"""

from __future__ import annotations

import atexit
import os

atexit.register(os._exit, 0)
