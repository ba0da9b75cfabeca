"""Names of the algorithms that signed tokens may have."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

Algorithm: TypeAlias = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
ALGORITHMS: Final[tuple[Algorithm, ...]] = get_args(Algorithm)
"""Every algorithm verifies with a public key. There is neither `none` nor HMAC."""
