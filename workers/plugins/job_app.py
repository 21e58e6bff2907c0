"""Makes queues of the functions in a user's own file.

A job is a function whose annotated parameters are the content of its queue. The same file is
imported by the workers, which call the functions and register what they take, and by whoever asks
for them (decision workers/0465).
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from importlib import import_module
from math import inf
from typing import (
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_type_hints,
    overload,
)

import anyio.lowlevel
import anyio.to_process
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, create_model

from kernel.values.canonical import digest
from kernel.values.priorities import QueuePriority
from kernel.work.content_schema import CONTENT_DIGEST
from workers.client.errors import GatewayError
from workers.client.jobs import Job
from workers.client.requests import JobRequest
from workers.client.rotulus import Rotulus
from workers.environment.foreign_threads import call_within
from workers.plugins.job_results import ResultForm
from workers.plugins.jobs import JobContext
from workers.plugins.process_errors import RaisedInProcess
from workers.plugins.queue_plugin import QueuePlugin, Schedule
from workers.plugins.registration import registration_of
from workers.plugins.retry import Retry

P = ParamSpec("P")
C = TypeVar("C")
R = TypeVar("R")

REGISTERED_WITHIN_S: Final = 30.0
"""How long a worker that begins may take to register a queue that somebody asks for already: its
gateway answers before, and it imports the user's file."""

LOOK_S: Final = 0.2

_PLAIN = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_THREADS: Final = anyio.CapacityLimiter(inf)
"""Threads of jobs, which no other call waits for; the jobs in hand bound them."""

PROCESSES_MAX: Final = 8
_PROCESSES: Final = anyio.CapacityLimiter(PROCESSES_MAX)
"""Processes of jobs, each of which computes."""

RunIn = Literal["thread", "process"]

AskElsewhere = Callable[[QueuePlugin, Sequence[JobRequest[Any]]], Awaitable[list[Job[Any]]]]
"""Takes what a job is asked for, in place of a gateway."""

_ELSEWHERE: Final[list[AskElsewhere]] = []

_log = logging.getLogger(__name__)

CLIENT = anyio.lowlevel.RunVar[Rotulus]("client of the jobs")
"""The client of an event loop, made when a job is first asked for there."""


@contextmanager
def ask_elsewhere(ask: AskElsewhere) -> Iterator[None]:
    """Have all that jobs of this process are asked for taken by something else than a gateway."""
    _ELSEWHERE.append(ask)
    try:
        yield
    finally:
        _ELSEWHERE.remove(ask)


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
    retry: Retry


class RequestOptions(TypedDict, total=False):
    """How a job is asked for; each is a field of `NewRequest`."""

    key: str
    priority: str
    delay_s: int
    run_at: datetime
    tags: Mapping[str, str]


@dataclass(frozen=True)
class AppJob(Generic[P, C, R]):
    """A function of an app as a job: a call of it is one of the function, `enqueue` asks for it.

    `P` are its parameters, `C` is what a call of it returns: of a coroutine what is to be awaited,
    and else `R`, the job's result.
    """

    function: Callable[..., C]
    plugin: QueuePlugin
    signature: inspect.Signature
    """The function's, without the job that it may be given first."""

    result_form: ResultForm
    request_options: RequestOptions = field(default_factory=RequestOptions)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> C:
        """Call the function, here and now; nothing is recorded."""
        return self.function(*arguments, **named)

    def options(self, **options: Unpack[RequestOptions]) -> "AppJob[P, C, R]":
        """Return the same job, asked for under a key, with a priority or tags, or later."""
        return replace(self, request_options={**self.request_options, **options})

    async def enqueue(self, *arguments: P.args, **named: P.kwargs) -> Job[R]:
        """Ask for the job; it is on the record when this returns.

        The gateway is that of ROTULUS_GATEWAY_URL.

        Raises:
            TypeError: the function takes no such arguments.
            ValidationError: an argument is not of its type.
            GatewayError: see `Rotulus.enqueue`.
        """
        [job] = await self._enqueue([self.request(*arguments, **named)])
        return job

    async def enqueue_many(self, contents: Iterable[Mapping[str, Any]]) -> list[Job[R]]:
        """Ask for a job for each mapping of arguments by name, many in a call.

        Raises:
            TypeError, ValidationError, GatewayError: see `enqueue`; nothing was asked for after
                the first two.
        """
        named = cast("Callable[..., JobRequest[R]]", self.request)
        return await self._enqueue([named(**content) for content in contents])

    def content_of(self, *arguments: P.args, **named: P.kwargs) -> dict[str, Any]:
        """Return the content that stands for a call with these arguments.

        Raises:
            TypeError: the function takes no such arguments.
            ValidationError: an argument is not of its type.
        """
        stated = self.signature.bind(*arguments, **named).arguments
        return self.plugin.content.model_validate(stated).model_dump(mode="json")

    def request(self, *arguments: P.args, **named: P.kwargs) -> JobRequest[R]:
        """Return what asks for the job, for a client of one's own; nothing is asked.

        Raises:
            TypeError: the function takes no such arguments.
            ValidationError: an argument is not of its type.
        """
        content = self.content_of(*arguments, **named)
        read = self.result_form.value_of
        return JobRequest(content, queue=self.plugin.name, read=read, **self.request_options)

    async def _enqueue(self, requests: list[JobRequest[R]]) -> list[Job[R]]:
        if _ELSEWHERE:
            return await _ELSEWHERE[-1](self.plugin, requests)
        client = CLIENT.get(None)
        if client is None:
            client = Rotulus()
            CLIENT.set(client)
        until_s = anyio.current_time() + REGISTERED_WITHIN_S
        has_warned = False
        while True:
            try:
                return await client.enqueue_many(requests)
            except GatewayError as error:
                is_early = error.code == "work_queue_unknown" and not error.jobs
                if not is_early or anyio.current_time() >= until_s:
                    raise
                if not has_warned:
                    has_warned = True
                    _log.warning(
                        "no worker serves %s yet, waiting for one for %g s; `rotulus dev FILE` or"
                        " `rotulus up --app MODULE:NAME` serves a file of jobs",
                        self.plugin.name,
                        REGISTERED_WITHIN_S,
                    )
            await anyio.sleep(LOOK_S)


class MakeJob(Protocol):
    """Makes a job of a function."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AppJob[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> AppJob[P, R, R]: ...


class MakeJobWithContext(Protocol):
    """Makes a job of a function that takes its context first."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext[Any], P], Coroutine[Any, Any, R]], /
    ) -> AppJob[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext[Any], P], R], /
    ) -> AppJob[P, R, R]: ...


class App:
    """The jobs of a user's own file; `rotulus up --app MODULE:NAME` serves them."""

    def __init__(self, *, redact: Callable[[str], str] | None = None) -> None:
        """`redact` takes the text of an error, and returns what of it may be kept and logged.

        It is called for each message and traceback; where it raises, or takes longer than a second,
        nothing of that text is kept.
        """
        self.redact = redact
        self._jobs: dict[str, AppJob[..., Any, Any]] = {}

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
        run_in: RunIn = "thread",
        **options: Unpack[QueueOptions],
    ) -> MakeJob: ...

    @overload
    def job(
        self,
        queue: str | None = None,
        *,
        item: str | None = None,
        context: Literal[True],
        run_in: Literal["thread"] = "thread",
        **options: Unpack[QueueOptions],
    ) -> MakeJobWithContext: ...

    def job(
        self,
        queue: str | None = None,
        *,
        item: str | None = None,
        context: bool = False,
        run_in: RunIn = "thread",
        **options: Unpack[QueueOptions],
    ) -> Any:
        """Return a decorator that makes a job of a function.

        A function that is no coroutine is called on a thread, or in a process: that one computes
        beside others, and is ended at its deadline.

        Args:
            queue: the queue's name; by default the function's, with hyphens.
            item: the parameter, a text, that says what jobs belong to; by default the first text,
                and where there is none, all arguments together.
            context: whether the function takes a `JobContext` before its arguments.
            run_in: where a plain function is called. In a process it is imported by its name, and
                what it takes and returns is pickled.
            **options: see `QueueOptions`.

        Raises:
            TypeError: a parameter has no annotation, or is one of `*` or `**`; the result has an
                annotation that pydantic does not read; or what is to run
                in a process is a coroutine, takes a context or is no function of a module.
            ValueError: a name is taken, or an option is beyond its limit.
        """

        def job_of(function: Callable[..., Any], /) -> AppJob[..., Any, Any]:
            name = queue or function.__name__.strip("_").replace("_", "-")
            if name in self._jobs:
                raise ValueError(f"two jobs are called {name!r}")
            signature = inspect.signature(function)
            parameters = [*signature.parameters.values()][context:]
            content, form = _content_of(function, parameters), ResultForm(function)
            if run_in == "process":
                _check_for_process(function, takes_context=context)
            plugin = QueuePlugin(
                name=name,
                content=content,
                item_key=_item_of(content, item),
                handler=partial(_call, function, form, takes_context=context, run_in=run_in),
                **options,
            )
            plugin.check()
            registration_of(plugin)
            signature = signature.replace(parameters=parameters)
            job = AppJob[..., Any, Any](function, plugin, signature, form)
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
    return item or next(iter(texts), CONTENT_DIGEST)


def _check_for_process(function: Callable[..., Any], *, takes_context: bool) -> None:
    problem = ""
    if inspect.iscoroutinefunction(function):
        problem = "a coroutine runs on the event loop, and in no process"
    elif takes_context:
        problem = "a context stays in the worker's process"
    elif not function.__qualname__.isidentifier():
        problem = "a process imports it by its name, and it is no function of a module"
    if problem:
        raise TypeError(f"{function.__qualname__}: {problem}")


def call_in_process(module: str, name: str, named: Mapping[str, Any]) -> Any:
    """Call a job's function in a process; return what it returns or, as such, what it raises."""
    try:
        job = getattr(import_module(module), name)
        return (job.function if isinstance(job, AppJob) else job)(**named)
    except BaseException as error:  # noqa: BLE001 - it is raised where the job is
        return RaisedInProcess.of(error, callers=(__file__,))


async def _call(
    function: Callable[..., Any],
    form: ResultForm,
    job: JobContext[BaseModel],
    *,
    takes_context: bool,
    run_in: RunIn,
) -> Mapping[str, Any] | None:
    named = {name: getattr(job.content, name) for name in type(job.content).model_fields}
    call = partial(function, *((job,) if takes_context else ()), **named)
    if inspect.iscoroutinefunction(function):
        result = await cast("Awaitable[Any]", call())
    elif run_in == "process":
        place = (function.__module__, function.__qualname__)
        # The process is ended where this is cancelled, at its deadline too.
        result = await anyio.to_process.run_sync(
            call_in_process, *place, named, cancellable=True, limiter=_PROCESSES
        )
        if isinstance(result, RaisedInProcess):
            raise result.error()
    else:
        # Of a call that does not return no thread is waited for: `call_within` counts it.
        within = partial(call_within, job.remaining_s(), call)
        result = await anyio.to_thread.run_sync(within, abandon_on_cancel=True, limiter=_THREADS)
    return form.document_of(result)
