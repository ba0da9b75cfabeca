"""The assessment of a run as parameters, metrics and tags of the run of MLflow that is active.

log_privacy(Local(), engine.accountant, {"delta": 1e-5, "dataset_size": 48_000})
"""

from __future__ import annotations

import json
from typing import Any

import mlflow

from privacy_bounds import Asking

MLFLOW = "application/vnd.mlflow.run+json"


def log_privacy(asking: Asking, run: Any, context: dict[str, Any], policy: dict[str, Any] | None = None) -> None:
    """Log the metrics, parameters and tags of an assessment of a run to MLflow.

    Keys start with `dp.`, and the digest of the result is a tag.
    """
    said = json.loads(asking.report(run, context, policy, form=MLFLOW))
    mlflow.log_params(said["params"])
    mlflow.log_metrics(said["metrics"])
    mlflow.set_tags(said["tags"])
