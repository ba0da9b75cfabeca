"""Command `privacy-bounds doctor`: check a deployment, and print what is wrong with its remedy."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Final

from service.server.serve import default_state_folder

UNHEALTHY_EXIT_CODE: Final = 1
MARKS: Final = {"ok": "ok", "warning": "warning", "failed": "FAILED"}


def run_doctor(url: str | None, *, as_json: bool) -> int:
    """Check the deployment with the settings of the environment. Return 0 if it is healthy, otherwise 1.

    Warnings leave it healthy. `as_json` prints the findings as JSON. `url` is the address of a running service, which
    is checked as well, or None.
    """
    from service.doctor.examination import examine

    findings = list(examine(default_state_folder(), url))
    failed = sum(each.status == "failed" for each in findings)
    warnings = sum(each.status == "warning" for each in findings)
    if as_json:
        report = {"healthy": not failed, "findings": [asdict(each) for each in findings]}
        sys.stdout.write(json.dumps(report, indent=1) + "\n")
    else:
        width = max(len(each.check) for each in findings)
        for each in findings:
            sys.stdout.write(f"{MARKS[each.status]:8} {each.check.ljust(width)}  {each.sentence}\n")
            if each.status != "ok" and each.remedy:
                sys.stdout.write(f"{'':8} {'':{width}}  -> {each.remedy}\n")
        verdict = "not healthy" if failed else "healthy"
        sys.stdout.write(f"The deployment is {verdict}: {failed} failed, {warnings} warnings.\n")
    return UNHEALTHY_EXIT_CODE if failed else 0
