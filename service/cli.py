"""Entry point of `python -m service.cli`. The command line itself is `service.command`."""

from __future__ import annotations

import sys

from service.command.main import main

if __name__ == "__main__":
    sys.exit(main())
