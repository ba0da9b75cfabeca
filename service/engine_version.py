"""The version of the numbers: it changes whenever any answer may change, and enters every digest."""

from typing import Final

ENGINE_VERSION: Final = "2026.11.27"
