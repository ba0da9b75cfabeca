"""Settings for operators: audit stream, operator port, signing keys, traces and the log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from service.settings.addresses import address_of, is_plain_address
from service.settings.fields import SettingsFields


class OperationSettings(SettingsFields):
    """Settings for operators: audit stream, operator port, signing keys, traces and the log."""

    audit_log: str | None = Field(
        default=None,
        description="Path of the audit stream, or `-` for standard output. The stream has one line of JSON for each "
        "request and each decision, and no bodies. Absent: no stream.",
    )
    operator_bind: str | None = Field(
        default=None,
        description="Address `host:port` or `unix:path` for `/metrics`, the details of `/readyz` and the "
        "administration of jobs. Absent: `/metrics` and the details are on the public port.",
    )
    signing_keys: Path | None = Field(
        default=None,
        description="PEM file with Ed25519 keys, which only the user of the service may read. The first key "
        "signs statements, and all public keys are published at `/.well-known/privacy-bounds-keys`. Absent: nothing is "
        "signed.",
    )
    traces_endpoint: str | None = Field(
        default=None,
        description="Address of an OTLP receiver over HTTP for traces, for example `http://collector:4318`. Absent: no "
        "traces. Standard variables such as `OTEL_EXPORTER_OTLP_HEADERS` apply.",
    )
    traces_sample_ratio: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=1.0,
        description="Share of traced requests, between 0 and 1, of those without a header `traceparent`. Requests with "
        "this header follow its decision.",
    )
    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="Log level. `info` writes one event for each request, and `warning` only failures."
    )

    @field_validator("traces_endpoint")
    @classmethod
    def _receiver(cls, given: str | None) -> str | None:
        if given is not None and not is_plain_address(given):
            raise ValueError("must be an `http://` or `https://` address without user, query and fragment")
        return given

    @field_validator("operator_bind")
    @classmethod
    def _bindable(cls, given: str | None) -> str | None:
        if given is not None:
            address_of(given)
        return given

    @property
    def operator_address(self) -> tuple[str, int] | Path | None:
        """Address of the operator port: (host, port), or a Unix socket; None if operators use the public port."""
        return None if self.operator_bind is None else address_of(self.operator_bind)
