"""Defines a tool: arguments that are checked, and an answer from the record or a gateway."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeVar

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict

from kernel.ledger.ad_hoc_query import QueryAnswer, QueryBounds
from kernel.ledger.damage import damage_of
from kernel.ledger.ledger import LedgerView
from kernel.values.errors import KernelError
from kernel.verify.checked_reading import checking_view
from workers.client.typed.damage_reports import report_damage
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.gateway_state import read_state
from workers.environment.ledger_access import LedgerPlace, open_record
from workers.environment.ledger_queries import query_record, query_runtime_run
from workers.questions.question import GatewayQuestion

T = TypeVar("T")
Document = dict[str, Any]

READS_AT_ONCE = 4
"""Questions to the record that run at the same time; others wait."""


class ToolRefused(KernelError):
    """A call that is refused by the server itself; nothing was done."""

    code = "not_found"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What tools ask: a ledger that may only be read, and the gateway beside it."""

    place: LedgerPlace
    gateway_url: Callable[[], str]
    """Asked at each call, because a gateway may be started later, and on another port."""

    allow_writes: bool = False
    """Whether tools may ask the gateway for what writes."""

    client: Callable[..., GatewayClient] = GatewayClient
    places: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(READS_AT_ONCE)
    )

    async def read(self, question: Callable[[LedgerView], T]) -> T:
        """Answer a question from one snapshot of the record, off the event loop."""

        def ask_view() -> T:
            with open_record(self.place) as view:
                return question(checking_view(view))

        try:
            return await anyio.to_thread.run_sync(ask_view, limiter=self.places)
        except Exception as error:
            if (damage := damage_of(error)) is not None:
                async with self.client(self.gateway_url(), give_up_after_s=0) as gateway:
                    await report_damage(gateway, [damage])
            raise

    async def query(
        self, sql: str, bounds: QueryBounds, *, run_id: str | None = None
    ) -> QueryAnswer:
        """Run one SELECT on the tables, or on a run of the runtime, off the event loop."""
        question = partial(query_record, self.place)
        if run_id is not None:
            question = partial(query_runtime_run, self.place, run_id)
        return await anyio.to_thread.run_sync(question, sql, bounds, limiter=self.places)

    async def ask(self, question: GatewayQuestion) -> Any:
        """Ask the gateway once.

        Raises:
            GatewayError: its own code, or `gateway_unreachable`.
        """
        path, query = question.address()
        async with self.client(self.gateway_url(), give_up_after_s=0) as gateway:
            return await gateway.get(path, **query)

    async def gateway_state(self) -> Document:
        """Return what the gateway says of itself and of what needs somebody.

        Raises:
            GatewayError: `gateway_unreachable`.
        """
        async with self.client(self.gateway_url(), give_up_after_s=0) as gateway:
            return await read_state(gateway)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Ask the gateway for something that writes; sent again it takes effect once.

        Raises:
            ToolRefused: `writes_not_allowed`.
            GatewayError: the gateway's own code, or `gateway_unreachable`.
        """
        if not self.allow_writes:
            message = "this server only reads; whoever starts it may pass --allow-writes"
            raise ToolRefused(message, code="writes_not_allowed")
        async with self.client(self.gateway_url(), give_up_after_s=0) as gateway:
            return await gateway.post(path, body)


class Tool(BaseModel, ABC):
    """A call of a tool: its fields are the arguments, its docstring is the description."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    writes: ClassVar[bool] = False
    """Whether it is listed only where writes are allowed."""

    is_exact: ClassVar[bool] = False
    """Whether nothing of its answer may be shortened, because somebody computes with it."""

    @abstractmethod
    async def result(self, context: ToolContext) -> Document:
        """Return the answer, its `summary` first."""


def next_page(after: object) -> Document | None:
    """Return the arguments that are added for the next page, None after the last."""
    return None if after is None else {"after": str(after)}


def existing(document: T | None, name: str) -> T:
    """Return what a name stands for.

    Raises:
        ToolRefused: `not_found`.
    """
    if document is None:
        raise ToolRefused(f"nothing on the record is called {name!r}")
    return document
