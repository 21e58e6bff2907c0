"""Makes queues of the functions in a user's own file.

A job is a function whose annotated parameters are the content of its queue. The same file is
imported by the gateway, which checks contents, by the workers, which call the functions, and by
whoever asks for them (decision workers/0465).
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from math import inf
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_type_hints,
    overload,
)

import anyio.lowlevel
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, create_model

from kernel.values.canonical import digest
from kernel.values.priorities import QueuePriority
from workers.client.jobs import Job
from workers.client.requests import NewRequest
from workers.client.rotulus import Rotulus
from workers.environment.foreign_threads import call_within
from workers.plugins.jobs import JobContext
from workers.plugins.queue_plugin import QueuePlugin, Schedule

P = ParamSpec("P")
R = TypeVar("R")

ITEM: Final = "arguments_digest"
"""What jobs belong to whose function has no text that names it: jobs with the same arguments."""

_PLAIN = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_THREADS: Final = anyio.CapacityLimiter(inf)
"""Threads of jobs, which no other call waits for; the jobs in hand bound them."""

_CLIENT = anyio.lowlevel.RunVar[Rotulus]("client of the jobs")


class _Arguments(BaseModel):
    """The content of a job: the arguments of its function."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    @property
    def arguments_digest(self) -> str:
        """The SHA-256 of the arguments, in hex."""
        return digest(self.model_dump(mode="json"))


class QueueOptions(TypedDict, total=False):
    """How the jobs of a queue are worked on; each is a field of `QueuePlugin`."""

    priorities: tuple[QueuePriority, ...]
    default_priority: str
    limit_s: float
    concurrency: int
    schedules: tuple[Schedule, ...]


class RequestOptions(TypedDict, total=False):
    """How a job is asked for; each is a field of `NewRequest`."""

    key: str
    priority: str
    delay_s: int
    run_at: datetime


@dataclass(frozen=True)
class AppJob(Generic[P, R]):
    """A function of an app as a job: a call of it is one of the function, `enqueue` asks for it."""

    function: Callable[..., R]
    plugin: QueuePlugin
    signature: inspect.Signature
    """The function's, without the job that it may be given first."""

    request_options: RequestOptions = field(default_factory=RequestOptions)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Call the function, here and now; nothing is recorded."""
        return self.function(*arguments, **named)

    def options(self, **options: Unpack[RequestOptions]) -> "AppJob[P, R]":
        """Return the same job, asked for under a key, with a priority, or later."""
        return replace(self, request_options={**self.request_options, **options})

    async def enqueue(self, *arguments: P.args, **named: P.kwargs) -> Job:
        """Ask for the job; it is on the record when this returns.

        The gateway is that of ROTULUS_GATEWAY_URL.

        Raises:
            TypeError: the function takes no such arguments.
            ValidationError: an argument is not of its type.
            GatewayError: see `Rotulus.enqueue`.
        """
        [job] = await self._enqueue([self._request(*arguments, **named)])
        return job

    async def enqueue_many(self, contents: Iterable[Mapping[str, Any]]) -> list[Job]:
        """Ask for a job for each mapping of arguments by name, many in a call.

        Raises:
            TypeError, ValidationError, GatewayError: see `enqueue`; nothing was asked for after
                the first two.
        """
        named = cast("Callable[..., NewRequest]", self._request)
        return await self._enqueue([named(**content) for content in contents])

    def _request(self, *arguments: P.args, **named: P.kwargs) -> NewRequest:
        stated = self.signature.bind(*arguments, **named).arguments
        content = self.plugin.content.model_validate(stated).model_dump(mode="json")
        return NewRequest(content, queue=self.plugin.name, **self.request_options)

    async def _enqueue(self, requests: list[NewRequest]) -> list[Job]:
        client = _CLIENT.get(None)
        if client is None:
            client = Rotulus()
            _CLIENT.set(client)
        return await client.enqueue_many(requests)


class App:
    """The jobs of a user's own file; `rotulus up --app MODULE:NAME` serves them."""

    def __init__(self) -> None:
        self._jobs: dict[str, AppJob[..., Any]] = {}

    @property
    def plugins(self) -> tuple[QueuePlugin, ...]:
        """The queues of the jobs."""
        return tuple(job.plugin for job in self._jobs.values())

    @overload
    def job(
        self,
        queue: str | None = None,
        *,
        item: str | None = None,
        context: Literal[False] = False,
        **options: Unpack[QueueOptions],
    ) -> Callable[[Callable[P, R]], AppJob[P, R]]: ...

    @overload
    def job(
        self,
        queue: str | None = None,
        *,
        item: str | None = None,
        context: Literal[True],
        **options: Unpack[QueueOptions],
    ) -> Callable[[Callable[Concatenate[JobContext[Any], P], R]], AppJob[P, R]]: ...

    def job(
        self,
        queue: str | None = None,
        *,
        item: str | None = None,
        context: bool = False,
        **options: Unpack[QueueOptions],
    ) -> Callable[[Callable[..., R]], AppJob[..., R]]:
        """Return a decorator that makes a job of a function.

        A function that is no coroutine is called on a thread.

        Args:
            queue: the queue's name; by default the function's, with hyphens.
            item: the parameter, a text, that says what jobs belong to; by default the first text,
                and where there is none, all arguments together.
            context: whether the function takes a `JobContext` before its arguments.
            **options: see `QueueOptions`.

        Raises:
            TypeError: a parameter has no annotation, or is one of `*` or `**`.
            ValueError: a name is taken, or an option is beyond its limit.
        """

        def job_of(function: Callable[..., R]) -> AppJob[..., R]:
            name = queue or function.__name__.strip("_").replace("_", "-")
            if name in self._jobs:
                raise ValueError(f"two jobs are called {name!r}")
            signature = inspect.signature(function)
            parameters = [*signature.parameters.values()][context:]
            content = _content_of(function, parameters)
            plugin = QueuePlugin(
                name=name,
                content=content,
                item_key=_item_of(content, item),
                handler=partial(_call, function, takes_context=context),
                **options,
            )
            plugin.check()
            job = AppJob[..., R](function, plugin, signature.replace(parameters=parameters))
            self._jobs[name] = job
            return job

        return job_of


def _content_of(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> type[BaseModel]:
    """Return the model of a function's arguments."""
    hints = get_type_hints(function)
    fields: dict[str, Any] = {}
    for each in parameters:
        if each.kind not in _PLAIN or each.name not in hints:
            problem = f"{each} is no parameter with a name and an annotation"
            raise TypeError(f"{function.__qualname__}: {problem}")
        fields[each.name] = (hints[each.name], ... if each.default is each.empty else each.default)
    return create_model(
        function.__name__, __base__=_Arguments, __module__=function.__module__, **fields
    )


def _item_of(content: type[BaseModel], item: str | None) -> str:
    texts = [name for name, each in content.model_fields.items() if each.annotation is str]
    if item is not None and item not in texts:
        raise ValueError(f"no parameter {item!r} is a text; there are {', '.join(texts) or 'none'}")
    return item or next(iter(texts), ITEM)


async def _call(
    function: Callable[..., Any], job: JobContext[BaseModel], *, takes_context: bool
) -> Mapping[str, Any] | None:
    named = {name: getattr(job.content, name) for name in type(job.content).model_fields}
    call = partial(function, *((job,) if takes_context else ()), **named)
    if inspect.iscoroutinefunction(function):
        result = await cast("Awaitable[Any]", call())
    else:
        # Of a call that does not return no thread is waited for: `call_within` counts it.
        within = partial(call_within, job.remaining_s(), call)
        result = await anyio.to_thread.run_sync(within, abandon_on_cancel=True, limiter=_THREADS)
    return result if result is None or isinstance(result, Mapping) else {"result": result}
