"""Signed statements: DSSE envelope, in-toto statement and public keys, as programs exchange them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from api_schemas.base import Response

ENVELOPE_MEDIA_TYPE: Final = "application/vnd.dsse.envelope.v1+json"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
KEY_SET_PATH: Final = "/.well-known/privacy-bounds-keys"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_FAMILY: Final = "urn:privacy-bounds:predicate:v"
PREDICATE_TYPE: Final = f"{PREDICATE_FAMILY}1"
EXAMPLE_KEY_ID: Final = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"

SignedKind = Literal["answer", "decision", "report", "job"]
KeyId = Annotated[
    str,
    Field(
        description="Identifier of a key: SHA-256 of its JSON Web Key (RFC 7638), in base64url.",
        examples=[EXAMPLE_KEY_ID],
    ),
]


class PublicKey(Response):
    """Public key of the service for Ed25519, as a JSON Web Key (RFC 8037)."""

    kty: Annotated[Literal["OKP"], Field(description="Type of the key, always `OKP`.")]
    crv: Annotated[Literal["Ed25519"], Field(description="Curve of the key, always `Ed25519`.")]
    x: Annotated[
        str,
        Field(
            description="The 32 bytes of the public key, in base64url.",
            examples=["11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"],
        ),
    ]
    kid: KeyId
    use: Annotated[Literal["sig"], Field(description="Use of the key, always `sig`: it verifies signatures.")]
    alg: Annotated[Literal["EdDSA"], Field(description="Algorithm of the signatures, always `EdDSA`.")]


class KeySet(Response):
    """JSON Web Key Set (RFC 7517) with the public keys of the service."""

    keys: Annotated[
        tuple[PublicKey, ...],
        Field(
            description="The key that signs, followed by earlier keys. The list is empty if the service signs nothing."
        ),
    ]


class EnvelopeSignature(Response):
    """Signature of an envelope."""

    keyid: KeyId
    sig: Annotated[
        str,
        Field(
            description="Ed25519 signature of the pre-authentication encoding (DSSE 1.0.2), in base64.",
            examples=["MEUCIQ" + "A" * 80 + "=="],
        ),
    ]


class Envelope(Response):
    """Signed statement: a DSSE envelope whose payload is an in-toto statement.

    The statement names the SHA-256 of the request and of the answer. It contains both, with the engine version, the
    policy and the attestations, so that `privacy-bounds replay` can compute the answer again.
    """

    payload: Annotated[
        str, Field(description="The statement in canonical form (RFC 8785), in base64.", examples=["eyJfdHlwZSI6..."])
    ]
    payloadType: Annotated[  # noqa: N815 - the name of DSSE
        Literal["application/vnd.in-toto+json"], Field(description="Media type of the statement.")
    ]
    signatures: Annotated[
        tuple[EnvelopeSignature, ...], Field(min_length=1, max_length=1, description="Exactly one signature.")
    ]
