"""Commands `privacy-bounds backup` and `restore`: the data folder as an archive, and back."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service.command.output import print_error
from service.server.serve import PROBLEM_EXIT_CODE, default_state_folder, load_settings

if TYPE_CHECKING:
    from service.settings import Settings

TIME: Final = re.compile(r"[0-9T:+-]{1,40}")
"""Times as backups have them. Other texts of an archive do not reach the terminal."""
IN_REDIS: Final = (
    "jobs, results, decisions and keys of this deployment are in Redis: back up its append-only file and the seal key "
    "(see the guide, Operating, Backup)."
)


def run_backup(target: str) -> int:
    """Write the data folder of the settings into the new file `target`. Return 0, or 2 after a problem.

    The problem is written to standard error.
    """
    from service.backup.archive import BackupError
    from service.backup.data_folder import back_up

    settings = load_settings()
    if settings is None:
        return PROBLEM_EXIT_CODE
    folder = _data_folder(settings)
    try:
        jobs, names = back_up(folder, Path(target))
    except (BackupError, OSError) as error:
        return _report(error, is_in_redis=settings.jobs_backend == "celery")
    sys.stdout.write(f"{target}: {jobs} jobs of {folder}, in {', '.join(names)}\n")
    if settings.jobs_backend == "celery":
        sys.stderr.write(f"privacy-bounds: {IN_REDIS}\n")
    return 0


def run_restore(archive: str, *, replaces: bool) -> int:
    """Write the file `archive` of `run_backup` into the data folder of the settings. Return 0, or 2 after a problem.

    With `replaces`, files of the folder with the same names are put aside; otherwise they are a problem. The problem is
    written to standard error.
    """
    from service.backup.archive import BackupError
    from service.backup.data_folder import restore

    settings = load_settings()
    if settings is None:
        return PROBLEM_EXIT_CODE
    folder = _data_folder(settings)
    try:
        jobs, manifest = restore(Path(archive), folder, replaces=replaces)
    except (BackupError, OSError) as error:
        return _report(error)
    created = manifest.get("created")
    is_time = isinstance(created, str) and TIME.fullmatch(created)
    sys.stdout.write(f"{folder}: {jobs} jobs of the backup of {created if is_time else 'an unknown time'}\n")
    return 0


def _data_folder(settings: Settings) -> Path:
    return settings.data_folder or default_state_folder()


def _report(error: Exception, *, is_in_redis: bool = False) -> int:
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        print_error(f"{place}{error.strerror or type(error).__name__}.")
    else:
        print_error(f"{error}.")
    if is_in_redis:
        print_error(IN_REDIS)
    return PROBLEM_EXIT_CODE
