"""Defines a tool: arguments that are checked, and an answer from the record or a gateway."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict

from kernel.ledger.ad_hoc_query import QueryAnswer, QueryBounds
from kernel.ledger.damage import damage_of
from kernel.records.access.actions import ACTIONS, clearance_for, is_allowed
from kernel.records.access.readable_view import (
    OF_EVERYTHING,
    ReadableView,
    RecordReader,
    read_as,
)
from kernel.records.access.records import holder_of
from kernel.values.errors import KernelError
from kernel.verify.checked_reading import checking_view
from workers.client.access_key import KEY, KeyAuth
from workers.client.typed.damage_reports import report_damage
from workers.client.typed.gateway import GatewayClient
from workers.client.typed.gateway_state import read_state
from workers.environment.ledger_access import LedgerPlace, open_record
from workers.environment.ledger_queries import query_record, query_runtime_run
from workers.environment.system_host import system_host
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

    takes_keys: bool = False
    """Whether each call has to show a key, as a request to the gateway has."""

    key: str = ""
    """The key that a call shows; over stdio that of ROTULUS_KEY."""

    reader: RecordReader = OF_EVERYTHING
    """As whom a call reads."""

    client: Callable[..., GatewayClient] = GatewayClient
    places: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(READS_AT_ONCE)
    )

    async def for_call(self, action: str, arguments: Mapping[str, Any]) -> "ToolContext":
        """Return what a call asks whose key allows its action.

        Raises:
            ToolRefused: `unauthenticated`, `access_denied`.
        """
        if not self.takes_keys:
            return self
        parts = {name: value for name, value in arguments.items() if isinstance(value, str)}
        now_us = system_host().now_us()
        holder = await self.read(lambda view: holder_of(view, self.key, now_us))
        if holder is None:
            message = "say who you are: a key in ROTULUS_KEY over stdio, as a Bearer over HTTP"
            raise ToolRefused(message, code="unauthenticated")
        principal = holder.key.principal
        if not is_allowed(holder.grants, action, parts):
            roles = ", ".join(sorted(ACTIONS[action].roles))
            message = f"{principal} may not do this ({action}); it takes the role of {roles}"
            raise ToolRefused(message, code="access_denied")
        clearance = clearance_for(holder.grants, action, parts)
        return replace(self, reader=RecordReader(clearance, principal))

    def gateway(self) -> GatewayClient:
        """Return a client of the gateway that asks it once, with the key of the call."""
        options = {"auth": KeyAuth({KEY: self.key})} if self.takes_keys else {}
        return self.client(self.gateway_url(), give_up_after_s=0, **options)

    async def read(self, question: Callable[[ReadableView], T]) -> T:
        """Answer a question from one snapshot of the record, off the event loop."""

        def ask_view() -> T:
            with open_record(self.place) as view:
                return read_as(checking_view(view), self.reader, question)

        try:
            return await anyio.to_thread.run_sync(ask_view, limiter=self.places)
        except Exception as error:
            if (damage := damage_of(error)) is not None:
                async with self.gateway() as gateway:
                    await report_damage(gateway, [damage])
            raise

    async def query(
        self, sql: str, bounds: QueryBounds, *, run_id: str | None = None
    ) -> QueryAnswer:
        """Run one SELECT on the tables, or on a run of the runtime, off the event loop.

        Raises:
            ToolRefused: `access_denied`; SQL finds what a reader is not cleared for.
        """
        if not self.reader.reads_everything:
            message = "SQL takes a clearance of everything; the other tools answer by class"
            raise ToolRefused(message, code="access_denied")
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
        async with self.gateway() as gateway:
            return await gateway.get(path, **query)

    async def gateway_state(self) -> Document:
        """Return what the gateway says of itself and of what needs somebody.

        Raises:
            GatewayError: `gateway_unreachable`.
        """
        async with self.gateway() as gateway:
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
        async with self.gateway() as gateway:
            return await gateway.post(path, body)


class Tool(BaseModel, ABC):
    """A call of a tool: its fields are the arguments, its docstring is the description."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    writes: ClassVar[bool] = False
    """Whether it is listed only where writes are allowed."""

    action: ClassVar[str]
    """What whoever calls it has to be allowed to do (`kernel/records/access/actions.py`)."""

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
