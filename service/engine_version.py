"""Version of the numbers. It changes whenever any answer may change, and is part of the digest of every request."""

from typing import Final

ENGINE_VERSION: Final = "2026.11.35"
