"""Models a model's answer as an envelope states it (§6.4).

The answer itself is a payload of its own; here is what it takes to find it, and to say whether the
same question was put to the same model in the same way.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict, StrictBool, StringConstraints

from kernel.model.numbers import Integer, Tokens
from kernel.values.canonical import canonicalize, sha256_hex

Name = Annotated[str, StringConstraints(min_length=1, max_length=512)]
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=400)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

USAGE_MAX = 16
"""Kinds of tokens that an answer counts."""

TokenUsage = Annotated[dict[str, Annotated[Tokens, Strict()]], Field(max_length=USAGE_MAX)]


class RecordedModelOutput(BaseModel):
    """One call of a model: the model, its prompt and parameters, and where its answer is."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    recorded_output_id: Name
    model_version: Name
    model_provider: Name
    prompt_hash: Sha256
    """Of the whole prompt, after every untrusted part of it was wrapped."""

    parameter_hash: Sha256
    fingerprint_combined: Sha256
    output_payload_blob_ref: Sha256
    recorded_at: Name
    recorded_by_operation_id: Name
    source_visibility_taint: Annotated[
        tuple[Name, ...], Field(max_length=10_000, fail_fast=True)
    ] = ()
    resolved_output_visibility_class: Name | None = None
    replay_eligible: bool = True
    prompt_hash_includes_wrapped_content: bool = False
    tier_2_prompt_cache_used: bool = False
    recorded_token_usage: Annotated[dict[str, Integer], Field(max_length=USAGE_MAX)] = Field(
        default_factory=dict
    )


class SubmittedModelOutput(RecordedModelOutput):
    """The same as V1 takes it: what is counted is not below zero, and has a most."""

    recorded_token_usage: TokenUsage = Field(default_factory=dict)


class CapturedOutput(BaseModel):
    """One answer of a model as it was captured, before an operation records it (§6.4)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: bytes
    model_version: ModelName
    model_provider: ModelName
    prompt_hash: str
    parameter_hash: str
    source_refs: Annotated[tuple[Name, ...], Field(fail_fast=True)]
    """The sources in its prompt."""

    answered_at: str
    tier_2_prompt_cache_used: StrictBool
    token_usage: TokenUsage


def fingerprint(model_version: str, prompt_hash: str, parameter_hash: str) -> str:
    """Return the hash of everything that determines an answer (K26)."""
    return sha256_hex(canonicalize([model_version, prompt_hash, parameter_hash]))
