"""`privacy-bounds` as another version of itself: with the engine version TESTED_VERSION, which its lines name."""

from __future__ import annotations

import json
import os
import sys

from service import engine_version

VERSION = os.environ["TESTED_VERSION"]
engine_version.ENGINE_VERSION = VERSION

from service.command.main import main  # noqa: E402
from service.jobs.celery.store import RedisStore  # noqa: E402
from service.jobs.job import StoredJob  # noqa: E402
from service.jobs.repository import ClaimedChunk  # noqa: E402
from service.jobs.results_codec import compress, decompress  # noqa: E402

save = RedisStore.save


def save_marked(self: RedisStore, claim: ClaimedChunk, lines: bytes, size: int) -> StoredJob:
    """Save result lines of a claimed chunk that name this version of the service."""
    rows = [{**json.loads(line), "by": VERSION} for line in decompress(lines).splitlines()]
    marked = compress(b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows))
    return save(self, claim, marked, size)


if __name__ == "__main__":
    RedisStore.save = save_marked
    sys.exit(main())
