"""The client for threads has what the one for event loops has, name by name."""

import inspect
import multiprocessing
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest

from tests import blocking_client
from tests.blocking_client import BASES, RENAMED, public_methods, public_values
from tests.workers.client.scripted_gateway import (
    WORK,
    ScriptedGateway,
    outcomes,
    refusal,
    taken,
)
from workers.client import BlockingJob, BlockingRotulus, GatewayError, NewRequest, Rotulus, blocking
from workers.client.bulk_operations import BulkOperations
from workers.client.enqueue_stream import EnqueueStream
from workers.client.gateway_http import GatewayHttp, Patience
from workers.client.jobs import Job
from workers.client.log_proofs import LogProofs, TreeHead
from workers.client.records import Records
from workers.client.session_operations import SessionOperations
from workers.client.source_bindings import SourceBindings

pytestmark = pytest.mark.anyio

KINDS = {kind.__name__: kind for kind in BASES}
METHODS = [(kind, name) for kind in BASES for name in public_methods(kind)]
REQUEST = NewRequest(WORK, key="k")
SESSION = "11111111-1111-4111-8111-111111111111"
MEANING = {"target_kind": "t"}

CALLS: dict[tuple[type, str], tuple[Any, ...]] = {
    (Rotulus, "enqueue"): (WORK,),
    (Rotulus, "enqueue_many"): ([REQUEST, REQUEST],),
    (Rotulus, "run_many"): ([REQUEST],),
    (Rotulus, "recompute"): ("n",),
    (GatewayHttp, "ask"): ("GET", "/v1/queues"),
    (GatewayHttp, "ask_document"): ("GET", "/v1/queues"),
    (GatewayHttp, "send_lines"): (f"/v1/sessions/{SESSION}/operations:bulk", [b"{}"]),
    (GatewayHttp, "gateway_urls"): (),
    (GatewayHttp, "answers"): ("/healthz",),
    (Job, "result"): (None,),
    (Job, "value"): (None,),
    (Job, "failures"): (),
    (Job, "status"): (),
    (Job, "waiting"): (),
    (Job, "cancel"): ("taken back",),
    (Job, "prioritize"): ("critical",),
    (BulkOperations, "preview"): ("cancel",),
    (BulkOperations, "begin"): ("cancel",),
    (BulkOperations, "get"): (1,),
    (BulkOperations, "stop"): (1,),
    (SourceBindings, "create"): ("b", MEANING, "k"),
    (SourceBindings, "update"): ("b", MEANING, "k"),
    (SourceBindings, "disable"): ("b", "k"),
    (SourceBindings, "enable"): ("b", None, "k"),
    (SourceBindings, "show"): ("b",),
    (SourceBindings, "page"): (),
    (LogProofs, "head"): (),
    (LogProofs, "inclusion"): (1,),
    (LogProofs, "outcome"): ("q", "r"),
    (LogProofs, "witnessed"): (1,),
    (LogProofs, "grown_from"): (TreeHead(1, "00" * 32),),
    (LogProofs, "submit"): (SESSION, {}),
    (LogProofs, "submit_witnessed"): (SESSION, {}),
    (Records, "queues"): (),
    (Records, "node"): ("n",),
    (Records, "operation"): ("o",),
    (Records, "extraction"): ("e",),
    (Records, "operations"): (),
    (Records, "bindings"): (),
    (Records, "extractions"): (),
    (Records, "requests"): ("q",),
    (Records, "sessions"): ("words",),
    (Records, "dead_letters"): ("q",),
    (Records, "reviews"): ("memberships",),
    (SessionOperations, "submit"): ([{"intent_kind": "i"}],),
}
"""What is asked of a gateway, with arguments."""

NAMED = {(BulkOperations, "begin"): {"reason": "all of it"}}
"""Arguments by name, where there have to be some."""

ASK_NOTHING = {
    *((Rotulus, name) for name in ("enqueue_stream", "outcomes", "job", "session")),
    (GatewayHttp, "patience"),
    (Patience, "wait"),
    (EnqueueStream, "put"),
}
"""What asks nothing by itself, or nothing without what was asked before: tested below."""


def twin(kind: type) -> Any:
    return getattr(blocking, f"Blocking{kind.__name__}")


def part(client: Any, kind: type) -> Any:
    """Return what a client has of a class, or its twin."""
    return {
        Rotulus: lambda: client,
        GatewayHttp: lambda: client.gateway,
        BulkOperations: lambda: client.bulk,
        SourceBindings: lambda: client.bindings,
        LogProofs: lambda: client.log,
        Records: lambda: client.records,
        SessionOperations: lambda: client.session(SESSION),
        Job: lambda: client.job("q", "r"),
    }[kind]()


def blocking_client_of(gateway: ScriptedGateway, **options: Any) -> BlockingRotulus:
    transport = httpx.MockTransport(gateway)
    return BlockingRotulus("http://g", sleep=gateway.sleep, transport=transport, **options)


def sent(gateway: ScriptedGateway) -> list[tuple[str, str, bytes]]:
    return [(each.method, str(each.url), each.content) for each in gateway.requests]


def test_the_module_is_written_from_the_client_for_event_loops():
    assert blocking_client.FILE.read_text() == blocking_client.text(), "make blocking"


@pytest.mark.parametrize("kind", BASES, ids=KINDS)
def test_a_class_has_the_names_of_its_twin(kind: type):
    names = {*public_methods(kind), *public_values(kind)}
    assert {name for name in vars(twin(kind)) if not name.startswith("_")} == names


@pytest.mark.parametrize(("kind", "name"), [*METHODS, (Rotulus, "__init__")])
def test_a_method_has_the_signature_and_the_words_of_its_twin(kind: type, name: str):
    ours, theirs = getattr(twin(kind), name), getattr(kind, name)
    assert ours.__doc__ == theirs.__doc__
    assert not inspect.iscoroutinefunction(ours)
    ours, theirs = inspect.signature(ours), inspect.signature(theirs)
    assert [*ours.parameters] == [*theirs.parameters]
    for parameter in theirs.parameters.values():
        assert ours.parameters[parameter.name].kind == parameter.kind
        default = ours.parameters[parameter.name].default
        assert callable(default) or default == parameter.default


def test_every_method_is_called_by_a_test():
    assert {*METHODS} == {*CALLS} | ASK_NOTHING
    assert RENAMED["Job"] == BlockingJob.__name__


@pytest.mark.parametrize(("kind", "name"), CALLS)
async def test_a_method_sends_what_its_twin_sends_and_raises_what_it_raises(kind: type, name: str):
    arguments, named = CALLS[kind, name], NAMED.get((kind, name), {})
    ends = []
    gateways = [ScriptedGateway(refusal(404, "unknown")) for _ in range(2)]
    async with gateways[0].client(new_key=lambda: "key") as rotulus:
        method = getattr(part(rotulus, kind), name)
        try:
            answer = method(*arguments, **named)
            ends.append([x async for x in answer] if hasattr(answer, "__anext__") else await answer)
        except GatewayError as error:
            ends.append((error.code, error.status))

    def call() -> None:
        with blocking_client_of(gateways[1], new_key=lambda: "key") as rotulus:
            try:
                answer = getattr(part(rotulus, kind), name)(*arguments, **named)
                ends.append([*answer] if hasattr(answer, "__next__") else answer)
            except GatewayError as error:
                ends.append((error.code, error.status))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert sent(gateways[1]) == sent(gateways[0]) != []
    shown = [each if isinstance(each, bool | tuple | None) else repr(each) for each in ends]
    assert shown[0] == shown[1] or {httpx.Response} <= {type(x) for x in ends[0]}


def test_jobs_are_waited_for_looked_at_and_named_in_errors():
    gateway = ScriptedGateway(taken, taken, lambda sent: outcomes(sent, "request:a", "request:b"))
    with blocking_client_of(gateway) as rotulus:
        job = rotulus.enqueue(WORK, key="a")
        assert (job.request_id, job.key, job.is_duplicate) == ("request:a", "a", False)
        [other] = rotulus.enqueue_many([NewRequest(WORK, key="b")])
        assert job.result(5).state == "completed"
        ended = rotulus.outcomes([job, other], 5)
        assert [each.request_id for each in ended] == ["request:a", "request:b"]
        again = rotulus.job(job.queue, job.request_id)
        assert (again.result(5), again != other) == (job.result(5), True)
    refused = ScriptedGateway(taken, refusal(422, "work_request_invalid"))
    many = (NewRequest(WORK, key=str(number)) for number in range(300))
    with blocking_client_of(refused) as rotulus, pytest.raises(GatewayError) as error:
        rotulus.enqueue_many(many)
    assert len(error.value.jobs) == 256
    assert {type(each) for each in error.value.jobs} == {BlockingJob}


def test_a_source_is_read_in_the_thread_of_its_owner():
    readers = set()

    def source():
        for number in range(3):
            readers.add(threading.get_ident())
            yield NewRequest(WORK, key=str(number))

    def answer(request: httpx.Request) -> httpx.Response:
        every = ("request:0", "request:1", "request:2")
        is_enqueued = request.url.path.endswith("requests")
        return taken(request) if is_enqueued else outcomes(request, *every)

    with blocking_client_of(ScriptedGateway(answer)) as rotulus:
        assert {job.key for job, _ in rotulus.run_many(source(), open_max=1)} == {"0", "1", "2"}
        assert len(rotulus.enqueue_many(source())) == 3
    assert readers == {threading.get_ident()}


def test_what_a_source_raises_is_raised_by_the_call():
    def source():
        yield NewRequest(WORK)
        raise LookupError("the source ends")

    with blocking_client_of(ScriptedGateway(taken)) as rotulus:
        with pytest.raises(LookupError, match="the source ends"):
            rotulus.enqueue_many(source())
        assert rotulus.enqueue(WORK).queue == WORK.queue


def test_a_stream_ends_on_the_record():
    with blocking_client_of(ScriptedGateway(taken)) as rotulus:
        with rotulus.enqueue_stream() as stream:
            for number in range(10):
                stream.put(WORK, key=str(number))
        assert stream.recorded == 10
        with pytest.raises(GatewayError, match="no gateway answers") as away:
            rotulus.gateway.patience(lambda _: False).wait(httpx.ConnectError("away"))
        assert away.value.code == "gateway_unreachable"


def test_many_threads_share_a_client():
    gateway = ScriptedGateway(taken)
    keys: list[str | None] = []
    with blocking_client_of(gateway) as rotulus:
        threads = [
            threading.Thread(target=lambda n=n: keys.append(rotulus.enqueue(WORK, key=str(n)).key))
            for n in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(map(int, filter(None, keys))) == list(range(20))


def _enqueue_in_child(rotulus: BlockingRotulus, answer: Any) -> None:
    try:
        rotulus.enqueue(WORK)
    except RuntimeError as error:
        answer.send(str(error))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_client_that_was_used_before_a_fork_says_so():
    ours, theirs = multiprocessing.Pipe()
    with blocking_client_of(ScriptedGateway(taken)) as rotulus:
        rotulus.enqueue(WORK)
        child = multiprocessing.get_context("fork").Process(
            target=_enqueue_in_child, args=(rotulus, theirs)
        )
        child.start()
        assert ours.poll(20)
        assert "make one in each process" in ours.recv()
        child.join()


@pytest.mark.slow
def test_a_program_that_closes_nothing_ends():
    program = (
        "import rotulus_client as r; client = r.BlockingRotulus('http://127.0.0.1:1');"
        "print(client.gateway.answers('/healthz'))"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, timeout=30, text=True) == "False\n"
