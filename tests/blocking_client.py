"""Writes the client for threads from the client for event loops: `make blocking`.

python -m tests.blocking_client > workers/client/blocking.py

Each public method has one of its name, with its signature and its docstring, in which classes have
the names of their twins.
"""

import ast
import dataclasses
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_overloads

from workers.client.blocking_calls import Blocking, BlockingClient, BlockingContext
from workers.client.bulk_operations import BulkOperations
from workers.client.enqueue_stream import EnqueueStream
from workers.client.gateway_http import GatewayHttp, Patience
from workers.client.job_calls import JobCalls
from workers.client.jobs import Job
from workers.client.log_proofs import LogProofs
from workers.client.records import Records
from workers.client.rotulus import Rotulus
from workers.client.session_operations import SessionOperations
from workers.client.source_bindings import SourceBindings

FILE = Path(__file__).parents[1] / "workers" / "client" / "blocking.py"

BASES: dict[type, type] = {
    Patience: Blocking,
    GatewayHttp: Blocking,
    Job: Blocking,
    EnqueueStream: BlockingContext,
    BulkOperations: Blocking,
    SourceBindings: Blocking,
    LogProofs: Blocking,
    Records: Blocking,
    SessionOperations: Blocking,
    Rotulus: BlockingClient,
}
"""The classes that have something to wait for, each before those that return it."""

RENAMED = {"AsyncIterator": "Iterator"} | {
    kind.__name__: f"Blocking{kind.__name__}" for kind in BASES
}

HEAD = '''"""Wraps the client for event loops for threads; `make blocking` writes it.

Each method waits for the one of its name on a loop in a thread (`blocking_calls.py`).
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, overload

import anyio
import httpx

from .blocking_calls import Blocking, BlockingClient, BlockingContext, LoopThread
from .bulk_operations import BulkOperations, Verb
from .contents import JobContent
from .enqueue_stream import EnqueueStream
from .gateway_http import GIVE_UP_AFTER_S, NO_HEADERS, GatewayHttp, Patience, Refused
from .jobs import Job, JobFailures, JobOutcome, JobStatus
from .log_proofs import (
    WITNESSED_WITHIN_S,
    InclusionProof,
    LogProofs,
    OutcomeProof,
    TreeHead,
    WitnessedRow,
)
from .records import Document, Records
from .requests import REQUESTS_MAX, JobRequest
from .rotulus import CALL_S_MAX, Requested, Rotulus
from .session_operations import OperationOutcome, SessionOperations
from .source_bindings import SourceBindings

R = TypeVar("R")
'''


def public_methods(kind: type) -> dict[str, Any]:
    """Return the methods of a class that somebody may call, but for those of the base."""
    return {
        name: each
        for name, each in vars(kind).items()
        if inspect.isfunction(each) and not name.startswith("_") and name != "aclose"
    }


def public_values(kind: type) -> dict[str, str]:
    """Return the annotations of what objects of a class hold, by name."""
    if dataclasses.is_dataclass(kind):
        stated = {field.name: field.type for field in dataclasses.fields(kind)}
        held = {n: t.__name__ if isinstance(t, type) else str(t) for n, t in stated.items()}
    else:
        held = {name: type(value).__name__ for name, value in vars(examples()[kind]).items()}
    return {name: each for name, each in held.items() if not name.startswith("_")}


def examples() -> dict[type, Any]:
    """Return an object of each class."""
    client = Rotulus("http://127.0.0.1:1")
    return {
        Rotulus: client,
        GatewayHttp: client.gateway,
        Patience: client.gateway.patience(),
        EnqueueStream: _Unentered(),
        BulkOperations: client.bulk,
        SourceBindings: client.bindings,
        LogProofs: client.log,
        Records: client.records,
        SessionOperations: client.session("s"),
        Job: Job("q", "r", _calls=JobCalls(client.gateway)),
    }


class _Unentered:
    """Has what a stream has; a stream itself is made on a loop alone."""

    def __init__(self) -> None:
        self.recorded = 0


class _Twins(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(RENAMED.get(node.id, node.id), node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        text = node.value
        if isinstance(text, str) and text in RENAMED:
            return ast.Constant(RENAMED[text])
        return node


def _definition(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = node.args
    for each in (*arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if each is not None and each.annotation is not None:
            each.annotation = _Twins().visit(each.annotation)
    if node.returns is not None:
        node.returns = _Twins().visit(node.returns)
    return node


def _passed(arguments: ast.arguments) -> str:
    """Return the arguments of a call as they are handed on."""
    parts = [each.arg for each in arguments.args[1:]]
    parts += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    parts += [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    parts += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(parts)


def _docstring(text: str | None, indent: str) -> str:
    body = textwrap.indent(inspect.cleandoc(text or ""), indent).strip()
    closing = f"\n{indent}" if "\n" in body else ""
    return f'{indent}"""{body}{closing}"""'


def _method(name: str, function: Any) -> Iterator[str]:
    for each in get_overloads(function):
        yield "    @overload"
        yield f"{_head(name, _definition(each))} ..."
    node = _definition(function)
    yield _head(name, node)
    yield _docstring(function.__doc__, " " * 8)
    passed = ", ".join(filter(None, (f"self._of.{name}", _passed(node.args))))
    returns = _returns(node)
    if returns == "None":
        yield f"        self._call({passed})"
    else:
        yield f"        answer: {returns} = self._call({passed})"
        yield "        return answer"


def _head(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return f"    def {name}({ast.unparse(node.args)}) -> {_returns(node)}:"


def _returns(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return "None" if node.returns is None else ast.unparse(node.returns).strip("'")


def _value(kind: type, name: str, annotation: str) -> Iterator[str]:
    twin = RENAMED.get(annotation, annotation)
    yield "    @property"
    yield f"    def {name}(self) -> {twin}:"
    yield f'        """As `{kind.__name__}.{name}`."""'
    if twin == annotation:
        yield f"        return self._of.{name}"
    else:
        yield f"        return {twin}(self._of.{name}, self._loop)"


def _class(kind: type) -> Iterator[str]:
    name = kind.__name__
    of = ", ".join(each.__name__ for each in getattr(kind, "__parameters__", ()))
    typed, generic = (f"{name}[{of}]", f", Generic[{of}]") if of else (name, "")
    yield f"class Blocking{name}({BASES[kind].__name__}[{typed}]{generic}, of={name}):"
    yield _docstring(_of_threads(kind), " " * 4)
    if kind is Rotulus:
        node = _definition(Rotulus.__init__)
        yield f"    def __init__({ast.unparse(node.args)}) -> None:"
        yield _docstring(Rotulus.__init__.__doc__, " " * 8)
        yield f"        super().__init__(Rotulus({_passed(node.args)}), LoopThread())"
    for value, annotation in public_values(kind).items():
        yield from _value(kind, value, annotation)
    for method, function in public_methods(kind).items():
        yield from _method(method, function)


def _of_threads(kind: type) -> str:
    text = kind.__doc__ or ""
    return text.replace("an async context manager", "a context manager").replace(
        "as async context manager", "as context manager"
    )


def text() -> str:
    """Return the module as it is committed."""
    lines = [HEAD, *(line for kind in BASES for line in ("", "", *_class(kind)))]
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"]
    written = "\n".join(lines) + "\n"
    return subprocess.check_output(command, input=written, text=True, cwd=FILE.parents[2])


if __name__ == "__main__":
    sys.stdout.write(text())
