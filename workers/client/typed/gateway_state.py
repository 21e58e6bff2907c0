"""Reads what a gateway says of itself and of what needs somebody.

Whatever answers at a URL may say anything, so each part is held against the form of what is read of
it. A part of another form is an error, which needs somebody, and not a part in which nothing does.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from kernel.values.json_text import depth_exceeds
from workers.client.errors import GatewayError
from workers.client.typed.gateway import GatewayClient
from workers.views.attention_items import AttentionItem
from workers.views.attention_rules import attention_of_state

PARTS: Final = {
    "queues": "/v1/queues",
    "tree": "/v1/tree",
    "checkpoint": "/v1/checkpoint",
    "archive": "/v1/archive",
    "attention": "/v1/attention",
}
"""What is asked besides readiness, by its name in the state."""

OF_SOME_ROLES: Final = frozenset({"tree", "checkpoint", "archive"})
"""Parts that not every role may read; what of them needs somebody is in `attention` as well."""

DEPTH_MAX: Final = 32

_STRICT: Final = ConfigDict(strict=True)
_Count = Annotated[int, Field(ge=0, le=10**15)]
_Text = Annotated[str, Field(max_length=10_000)]
_Number = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


@with_config(_STRICT)
class _Shards(TypedDict):
    owned: _Count
    of: _Count


@with_config(_STRICT)
class _Readiness(TypedDict):
    status: _Text
    problems: NotRequired[dict[str, _Text]]
    shards: NotRequired[_Shards]


@with_config(_STRICT)
class _Backlog(TypedDict):
    open: _Count
    ready: _Count
    held: _Count
    delayed: _Count
    suspended: _Count
    in_flight: _Count


@with_config(_STRICT)
class _Queue(TypedDict):
    backlog: _Backlog
    dead: _Count
    oldest_eligible_age_ms: Annotated[dict[str, _Number], Field(min_length=1)]


@with_config(_STRICT)
class _Pause(TypedDict):
    queue: _Text
    priority: _Text | None
    decided_by: _Text


@with_config(_STRICT)
class _Worker(TypedDict):
    worker_id: _Text
    queues: list[_Text]
    completed: _Count
    failed: _Count
    in_flight: _Count
    seen_at_ms: Annotated[int, Field(ge=0, le=10**14)]


@with_config(_STRICT)
class _Queues(TypedDict):
    queues: dict[str, _Queue]
    pauses: list[_Pause]
    fleet: list[_Worker]
    late_workers: NotRequired[list[_Text]]


@with_config(_STRICT)
class _Tree(TypedDict):
    tree_size: _Text
    root_hash: _Text


@with_config(_STRICT)
class _Problem(TypedDict):
    code: _Text
    message: _Text


@with_config(_STRICT)
class _Published(TypedDict):
    tree_size: Any
    message: _Text
    verdict: _Text
    quorum_met: bool


@with_config(_STRICT)
class _Checkpoint(TypedDict):
    problem: _Problem | None
    checkpoint: _Published | None
    receipts_not_under_the_tree: NotRequired[_Count | None]
    run_groups_not_under_the_tree: NotRequired[_Count | None]


@with_config(_STRICT)
class _Archive(TypedDict):
    is_configured: bool
    retention_days: _Count | None


class _Attention(TypedDict):
    items: Annotated[list[AttentionItem], Field(max_length=1_000)]


_FORMS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "readiness": TypeAdapter(_Readiness),
    "queues": TypeAdapter(_Queues),
    "tree": TypeAdapter(_Tree),
    "checkpoint": TypeAdapter(_Checkpoint),
    "archive": TypeAdapter(_Archive),
    "attention": TypeAdapter(_Attention),
}


async def read_state(client: GatewayClient) -> dict[str, Any]:
    """Return the state of a gateway by its parts; a part may be an error.

    `attention` is the list of what needs somebody, also of what the gateway does not answer.

    Raises:
        GatewayError: it does not answer, or what answers is no gateway.
    """
    state: dict[str, Any] = {"readiness": _check_part("readiness", await client.readiness())}
    for name, path in PARTS.items():
        try:
            state[name] = _check_part(name, await client.get(path))
        except GatewayError as error:
            state[name] = {"error": f"{error.code}: {error}"}
    items = state["attention"].get("items")
    not_answered = {
        path: state[name]["error"]
        for name, path in PARTS.items()
        if "error" in state[name] and not _is_withheld(name, state[name]["error"])
    }
    state["attention"] = attention_of_state(
        state["readiness"].get("problems", {}), items, not_answered
    )
    return state


def _is_withheld(name: str, error: str) -> bool:
    """Tell whether a part is not for whoever asks, which is no fault of the gateway."""
    return name in OF_SOME_ROLES and error.startswith("access_denied: ")


def _check_part(name: str, answer: Any) -> dict[str, Any]:
    try:
        checked: dict[str, Any] = _FORMS[name].validate_python(answer)
    except ValidationError as error:
        place = ".".join(map(str, error.errors(include_input=False)[0]["loc"]))[:200]
        message = f"the answer is not what a gateway says of {name}: {place or 'no object'}"
        raise GatewayError("gateway_failed", message) from None
    if depth_exceeds(answer, DEPTH_MAX):
        raise GatewayError("gateway_failed", f"the answer of {name} nests too deep")
    return checked if name == "attention" else dict(answer)
