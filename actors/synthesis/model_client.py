"""Defines the port behind which every model stands: what it is asked and answers (K16).

1. A client sees a prompt that is already assembled and wrapped, and parameters; nothing else.
2. Everything that may change an answer is in the prompt or in the parameters, so that their
   hashes and the model's version say whether the same was asked (§6.4).
3. A model that wants to look something up answers so in its grammar; the synthesis looks it up and
   asks again. So each call has one prompt and one recorded output (decision actors/0009).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from kernel.values.canonical import canonicalize, sha256_hex

ANSWER_MAX_BYTES = 256 * 1024
LOCAL_PROVIDER = "local"


class ModelParameters(BaseModel):
    """Every parameter of a call; a field that is added here is part of the hash by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    max_tokens: Annotated[int, Field(ge=1, le=131_072)] = 4096
    tools: tuple[str, ...] = ()
    """Kinds of answers by which the model may ask to look something up."""

    grammar: dict[str, Any] = Field(default_factory=dict)
    """JSON schema that the answer must satisfy."""

    prompt_caching: bool = True
    """Whether the provider may keep the prompt; never with sealed sources (INV-B2-CACHING-1)."""

    def hash(self) -> str:
        """Return the hash of the canonical JSON of every parameter."""
        return sha256_hex(canonicalize(self.model_dump(mode="json")))


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One question to a model, with the parameters of its answer."""

    prompt: str
    """The whole text, wrapped; its hash is taken over exactly this."""

    parameters: ModelParameters
    system_chars: int = 0
    """The length of the system's part at the beginning of the prompt."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer, and the version of the model."""

    text: str
    model_version: str
    model_provider: str
    token_usage: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    tier_2_prompt_cache_used: bool = False


class ModelClient(Protocol):
    """A model that can be asked; a call has no effect but its cost and may be repeated."""

    @property
    def external(self) -> bool:
        """Tell whether a prompt leaves this machine."""

    async def complete(self, call: ModelCall) -> ModelAnswer:
        """Answer one call with a text of at most `ANSWER_MAX_BYTES`.

        Raises:
            ModelError: the model did not answer; nothing was written anywhere.
        """
