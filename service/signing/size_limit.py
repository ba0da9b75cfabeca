"""Size limit of signed envelopes. Importing it loads no library for signatures, as a service without a key has none."""

from typing import Final

LARGEST_ENVELOPE: Final = 2**25
"""Bytes of an envelope. Reading one takes seconds at most."""
TOO_LONG: Final = "The signed statement would be too long. Send a smaller request, or fewer points."
