"""Public keys of Ed25519 that verify signatures which anybody can make.

OpenSSL accepts such keys. A service that accepts keys from outside has to refuse them itself.
"""

from __future__ import annotations

from typing import Final

FIELD_PRIME: Final = 2**255 - 19
SMALL_ORDER: Final = frozenset(
    {
        0,
        1,
        FIELD_PRIME - 1,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    }
)
"""The y coordinates of the eight points whose order divides the cofactor of the curve."""


def is_weak_public_key(raw: bytes) -> bool:
    """Return whether a public key of 32 bytes verifies signatures that anybody can make, or has a second form.

    Such a key is a point of small order, or has a y coordinate that is not reduced (RFC 8032, section 5.1.3).
    """
    y = int.from_bytes(raw, "little") % 2**255
    return y in SMALL_ORDER or y >= FIELD_PRIME
