"""Import resource, `POST /v1/imports`: the state of another library as a mechanism of this service."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, ValidationInfo, model_validator

from api_schemas.assumptions_and_hazards import Hazards
from api_schemas.base import Request, Result, is_none
from api_schemas.imported import Content, Format, ImportFormat, ImportReader
from api_schemas.mechanisms import MechanismSpec
from api_schemas.threat_models import ThreatModelSpec

IMPORTS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "opacus_history": {
        "summary": "State_dict of an Opacus accountant after a run with two noise levels",
        "value": {
            "format": "opacus",
            "content": {"history": [[1.1, 0.004, 3000], [0.9, 0.004, 1000]], "mechanism": "prv"},
        },
    },
    "dp_accounting_event": {
        "summary": "Event of dp_accounting as a named tuple",
        "value": {
            "format": "detect",
            "content": {
                "module_name": "dp_accounting.dp_event",
                "class_name": "SelfComposedDpEvent",
                "event": {
                    "module_name": "dp_accounting.dp_event",
                    "class_name": "PoissonSampledDpEvent",
                    "sampling_probability": 0.01,
                    "event": {
                        "module_name": "dp_accounting.dp_event",
                        "class_name": "GaussianDpEvent",
                        "noise_multiplier": 1.0,
                    },
                },
                "count": 1000,
            },
        },
    },
    "tf_privacy_arguments": {
        "summary": "Arguments of compute_dp_sgd_privacy_statement of TensorFlow Privacy",
        "value": {
            "format": "tf_privacy",
            "content": {
                "number_of_examples": 60000,
                "batch_size": 256,
                "num_epochs": 15,
                "noise_multiplier": 1.1,
                "delta": 1e-5,
                "used_microbatching": False,
                "max_examples_per_user": 4,
            },
        },
    },
}


class ImportsRequest(Request):
    """A state of another library or of this service."""

    format: Format = "detect"
    content: Content

    @model_validator(mode="after")
    def _readable(self, info: ValidationInfo) -> Self:
        reader: ImportReader | None = info.context
        if reader is not None:
            reader.check(self.format, self.content)
        return self


class ImportsResponse(Result):
    """Mechanism that an imported state describes, omitted information, and facts that the state cannot show."""

    format: Annotated[ImportFormat, Field(description="Detected or requested format of the state.")]
    mechanism: MechanismSpec
    threat_model: Annotated[
        ThreatModelSpec | None,
        Field(
            description="Threat model of the state (neighbouring relation or records of one person). The field "
            "is absent if the state has none.",
            exclude_if=is_none,
        ),
    ] = None
    not_carried_over: Annotated[
        tuple[str, ...],
        Field(description="Information of the state that the mechanism does not contain, one sentence each."),
    ]
    hazards: Hazards
