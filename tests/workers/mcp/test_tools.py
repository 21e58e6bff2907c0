"""The tools by a client of the SDK: what they answer, how much, and what they refuse."""

import json
from contextlib import asynccontextmanager, closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from actors.error_codes import ERRORS
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.work.contents import BINDING_QUEUE
from tests.kernel import hostile_queries
from tests.kernel.build import FakeHost, changed, create, submit, unmeasured
from tests.kernel.honest import write_honestly
from tests.kernel.quarantining import audited
from tests.kernel.tampering import Copy
from tests.workers.api.asking import binding, enqueued
from tests.workers.api.door import ANY_JSON, running_door
from tests.workers.mcp.conftest import Asker, asking, run_once
from tests.workers.mcp.driven import RUN_OF_POSTGRES, drive
from workers.client.log_proofs import LogProofs, TreeHead
from workers.environment.system_host import system_host
from workers.mcp.answers import ANSWER_BYTES_MAX, fit_answer, page, part_of, shorten
from workers.mcp.server import call
from workers.mcp.tool import ToolContext, ToolRefused
from workers.mcp.tools import TOOLS

pytestmark = pytest.mark.anyio
READING = {name for name, tool in TOOLS.items() if not tool.writes}
THOUGHTS = "0193514a-9a51-7cc3-8f0e-6a9c2b1d4e5f"


async def test_every_tool_that_reads_is_listed_described_and_answers(ask: Asker):
    listed = (await ask.session.list_tools()).tools
    assert {tool.name for tool in listed} == READING
    assert all(tool.description and tool.annotations.readOnlyHint for tool in listed)
    # As it is sent, every tool has to fit a model's reading.
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in listed) < 39_600
    answers = await drive(ask.session)
    assert answers.keys() == READING
    assert all(isinstance(answer["summary"], str) for answer in answers.values())
    assert answers["merkle_verify"]["is_verified"]
    assert answers["get_extraction"]["steps"]
    assert answers["list_manifests"]["manifests"]
    assert answers["explain_authority"]["cu_authority"] is not None


async def test_every_tool_answers_from_postgres(postgres_url):
    from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

    host = FakeHost()
    with closing(Ledger.create(PostgresStore(postgres_url), host.host)) as ledger:
        write_honestly(ledger, host)
        run_once(ledger)
    async with asking(SecretStr(postgres_url)) as ask:
        answers = await drive(ask.session, RUN_OF_POSTGRES)
    assert answers.keys() == READING
    assert answers["merkle_verify"]["is_verified"]
    assert "convert_from" in answers["describe_schema"]["functions"]


@pytest.mark.spec("Q1", "Q2", "Q3", "Q4", "Q5")
async def test_the_audit_queries_are_answered(ask: Asker):
    created = await ask("find_operations", semantic_intent="create", limit=3)
    assert {row["semantic_intent"] for row in created["operations"]} == {"create"}
    operation_id = created["operations"][0]["operation_id"]
    whole = await ask("get_operation", operation_id=operation_id)
    entity = whole["effects"][0]["record_key"]
    wrote = await ask("find_operations", entity=entity)
    assert operation_id in {row["operation_id"] for row in wrote["operations"]}
    lasting = await ask("find_operations", reversibility="irreversible_external_effect")
    assert lasting["operations"]
    ancestry = await ask("get_ancestors", operation_id=operation_id)
    assert ancestry["operations"][-1]["operation_id"] == operation_id
    assert (await ask("preview_rollback", operation_id=operation_id))["effects"]


@pytest.mark.parametrize(
    ("tool", "rows", "key", "arguments"),
    [
        ("find_operations", "operations", "operation_id", {}),
        ("list_log", "rows", "ec_sequence_number", {}),
        ("list_sessions", "sessions", "session_id", {}),
        ("list_bindings", "bindings", "binding_id", {}),
        ("list_adjudications", "items", "receipt", {"state": "resolved"}),
        ("list_costs", "entries", "operation_id", {}),
        ("list_reviews", "items", "record_id", {"kind": "outcome"}),
        ("list_extractions", "runs", "extraction_run_id", {"state": "blocked"}),
        ("list_dead_letters", "dead_letters", "request_id", {"queue": "authority-recompute"}),
    ],
)
async def test_pages_come_to_what_one_page_holds(ask: Asker, tool, rows, key, arguments):
    async def walked(limit):
        seen, following = [], {}
        while following is not None:
            answer = await ask(tool, **arguments, **following, limit=limit)
            seen += [json.dumps(row[key]) for row in answer[rows]]
            following = answer["next"]
        return seen

    by_many = await walked(100)
    assert len(by_many) == len(set(by_many)) > 0
    assert await walked(max(1, len(by_many) // 3)) == by_many


async def test_the_trail_of_a_session_comes_in_pages(ask: Asker):
    [session_id] = await ask.values(
        "SELECT session_id FROM belief_sessions ORDER BY n_events DESC LIMIT 1"
    )
    seen, following = [], {}
    while following is not None:
        answer = await ask("list_session_events", session_id=session_id, **following, limit=1)
        seen += [event["event_hash"] for event in answer["events"]]
        following = answer["next"]
    whole = await ask("list_session_events", session_id=session_id)
    assert seen == [event["event_hash"] for event in whole["events"]]
    head = (await ask("get_session", session_id=session_id))["audit_head_event_id"]
    assert whole["events"][-1]["event_id"] == head


async def test_proofs_are_those_that_a_client_of_the_gateway_verifies(folder):
    class Tools:
        """What `LogProofs` asks a gateway for, asked of the tools."""

        def __init__(self, tools):
            self.tools = tools

        async def ask_document(self, _method, path, params):
            parts = path.removeprefix("/v1/tree").strip("/").split("/")
            names = {
                "": ("get_tree_head", ""),
                "inclusion": ("prove_inclusion", "ec_sequence_number"),
            }
            tool, name = names.get(parts[0], ("prove_consistency", "old_tree_size"))
            stated = {name: int(parts[1])} if name else {}
            return await self.tools(tool, **stated, **params)

    async with asking(folder / "ledger.db") as ask:
        proofs = LogProofs(Tools(ask))
        head = await proofs.head()
        assert (await proofs.inclusion(3)).head == head
        older = TreeHead.of(await ask("get_tree_head", tree_size=5))
        assert await proofs.grown_from(older) == head


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("no_tool", {}, "tool_unknown"),
        ("get_operation", {}, "INVALID_REQUEST"),
        ("get_operation", {"operation_id": "x", "further": 1}, "INVALID_REQUEST"),
        ("get_operation", {"operation_id": "x\x00"}, "INVALID_REQUEST"),
        ("get_operation", {"operation_id": "x"}, "not_found"),
        ("get_node", {"node_id": "x"}, "not_found"),
        ("get_ancestors", {"operation_id": "x"}, "not_found"),
        ("preview_rollback", {"operation_id": "x"}, "not_found"),
        ("explain_authority", {"node_id": "x"}, "not_found"),
        ("get_source_fields", {"source_ref": "x"}, "not_found"),
        ("get_extraction", {"extraction_run_id": "x"}, "extraction_run_not_known"),
        ("get_binding", {"binding_id": "x"}, "not_found"),
        ("get_request", {"request_id": "x"}, "work_request_unknown"),
        ("get_session", {"session_id": "x"}, "SESSION_NOT_FOUND"),
        ("list_session_events", {"session_id": "x"}, "SESSION_NOT_FOUND"),
        ("list_manifests", {"source_event_id": "x"}, "binding_manifest_unknown"),
        ("list_dead_letters", {"queue": "x"}, "work_queue_unknown"),
        ("list_reviews", {"kind": "outcome", "after": "x"}, "INVALID_REQUEST"),
        ("find_operations", {"limit": 501}, "INVALID_REQUEST"),
        ("find_operations", {"since": "1700000000"}, "INVALID_REQUEST"),
        ("find_operations", {"since": "9999-12-31T23:59:59-23:59"}, "INVALID_REQUEST"),
        ("get_tree_head", {"tree_size": 10**9}, "tree_size_invalid"),
        ("prove_inclusion", {"ec_sequence_number": 10**9}, "tree_size_invalid"),
        ("prove_consistency", {"old_tree_size": 10**9}, "tree_size_invalid"),
        ("merkle_root", {"session_id": THOUGHTS}, "audit_session_unknown"),
        ("merkle_root", {"session_id": ""}, "INVALID_REQUEST"),
        ("merkle_finalize", {"session_id": "x/../y"}, "INVALID_REQUEST"),
        ("describe_schema", {"table": "x"}, "not_found"),
        ("get_run_summary", {"run_id": "x"}, "landscape_unknown"),
        ("get_errors", {"run_id": "x"}, "landscape_unknown"),
        ("get_failure_context", {"run_id": "x"}, "landscape_unknown"),
        ("explain_token", {"token_id": "x"}, "landscape_unknown"),
        ("get_run", {"run_id": "x"}, "landscape_unknown"),
        ("list_rows", {"run_id": "x"}, "landscape_unknown"),
        ("list_rows", {"run_id": "run-1", "after": "x"}, "INVALID_REQUEST"),
        ("list_operations", {"run_id": "run-1", "status": "done"}, "INVALID_REQUEST"),
        ("get_calls", {"state_id": "x"}, "landscape_unknown"),
        ("get_operation_calls", {"operation_id": "run-1"}, "landscape_unknown"),
        ("list_runs", {"status": "COMPLETED"}, "INVALID_REQUEST"),
        ("query", {"sql": "DELETE FROM nodes"}, "query_refused"),
        ("query", {"sql": "SELECT x FROM nodes"}, "query_failed"),
        ("query", {"sql": hostile_queries.ENDLESS[0]}, "query_timed_out"),
        ("thought_record", {"session_id": THOUGHTS}, "INVALID_REQUEST"),
        ("merkle_finalize", {"session_id": THOUGHTS}, "writes_not_allowed"),
        ("audit_session_end", {"session_id": THOUGHTS}, "writes_not_allowed"),
        ("audit_verify_chain", {"session_id": THOUGHTS, "record": True}, "writes_not_allowed"),
    ],
)
async def test_what_is_wrong_has_a_code_of_the_table(ask: Asker, tool, arguments, code):
    error = await ask.refused(tool, **arguments)
    assert error["code"] == code
    assert error["message"]
    assert error["is_retryable"] is ERRORS[code].is_retryable


async def test_a_query_has_limits(ask: Asker):
    many = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    answer = await ask("query", sql=many, limit=200)
    assert (len(answer["rows"]), answer["cut_by"]) == (200, "rows_max")
    wide = many.replace("SELECT x FROM", "SELECT 'WIDE' AS x FROM").replace("WIDE", "w" * 1000)
    answer = await ask("query", sql=wide, limit=200)
    assert answer["cut_by"] == "bytes_max"
    assert 22_000 < sum(len(row[0]) for row in answer["rows"]) <= 24_000
    await ask("query", sql="SELECT 1 AS x".ljust(20_000))
    for arguments in ({"sql": "SELECT 1 AS x", "limit": 201}, {"sql": "SELECT 1".ljust(20_001)}):
        assert (await ask.refused("query", **arguments))["code"] == "INVALID_REQUEST"


async def test_no_statement_of_the_corpus_is_answered(ask: Asker):
    for sql in hostile_queries.statements("/etc/hostname"):
        if not sql.isprintable() and "\ud800" in sql:
            continue  # no transport carries it
        error = await ask.refused("query", sql=sql)
        assert error["code"] in ("query_refused", "query_failed", "INVALID_REQUEST"), sql


@settings(max_examples=settings().max_examples // 2)
@given(
    st.sampled_from(sorted(TOOLS)),
    st.dictionaries(
        st.sampled_from(["session_id", "operation_id", "node_id", "after", "limit", "sql", "part"]),
        ANY_JSON,
        max_size=4,
    ),
)
async def test_whatever_a_tool_is_given_it_answers_with_a_code(tmp_path_factory, tool, arguments):
    place = tmp_path_factory.getbasetemp() / "no-ledger" / "ledger.db"
    result = await call(ToolContext(place, lambda: "http://127.0.0.1:9"), tool, arguments)
    document = json.loads(result.content[0].text)
    assert "summary" in document or document["error"]["code"] in ERRORS
    assert document.get("error", {}).get("code") != "internal"


async def test_without_a_ledger_there_is_a_code_and_no_file(tmp_path):
    async with asking(tmp_path / "ledger.db") as ask:
        for tool, arguments in (("diagnose", {}), ("query", {"sql": "SELECT 1 AS x"})):
            error = await ask.refused(tool, **arguments)
            assert error["code"] == "ledger_unavailable"
            assert str(tmp_path) not in json.dumps(error)
    assert list(tmp_path.iterdir()) == []


@asynccontextmanager
async def beside_a_gateway(tmp_path, *, allow_writes):
    path = tmp_path / "ledger.db"
    store = SqliteStore(path)
    async with running_door(store, host=FakeHost().host) as door:
        client = door.client

        def connected(_url, **_options):
            return client()

        async with asking(path, client=connected, allow_writes=allow_writes) as ask:
            yield door, ask
    store.close()


async def test_thoughts_are_recorded_where_that_is_allowed(tmp_path):
    of = {"session_id": THOUGHTS}
    async with beside_a_gateway(tmp_path, allow_writes=True) as (_, ask):
        assert {tool.name for tool in (await ask.session.list_tools()).tools} == set(TOOLS)
        await ask("audit_session_start", **of, task_id="task")
        plan = {"thought_id": "t-1", "thought_type": "plan", "content": "look first"}
        assert (await ask("thought_record", **of, **plan))["sequence"] == 1
        early = await ask.refused("merkle_finalize", **of)
        assert early["code"] == "thought_reflection_missing"
        assert (await ask("audit_verify_chain", **of))["recorded_as_verified"] == 0
        assert (await ask("audit_verify_chain", **of, record=True))["verified_count"] == 1
        last = {"thought_id": "t-2", "thought_type": "reflection", "content": "done"}
        await ask("thought_record", **of, **last)
        root = (await ask("merkle_finalize", **of))["merkle_root"]
        assert (await ask("merkle_root", **of))["merkle_root"] == root
        assert (await ask("merkle_verify", **of, sequence=2))["is_verified"]
        assert (await ask("audit_session_end", **of))["state"] == "ended"
        texts = [thought["content"] for thought in (await ask("list_thoughts", **of))["thoughts"]]
        assert texts == ["look first", "done"]


async def test_what_writes_is_neither_listed_nor_carried_out_by_default(tmp_path):
    async with beside_a_gateway(tmp_path, allow_writes=False) as (door, ask):
        before = door.ledger.read(lambda view: view.head().row_hash)
        stated = {"session_id": THOUGHTS, "task_id": "task"}
        error = await ask.refused("audit_session_start", **stated)
        assert error["code"] == "writes_not_allowed"
        assert door.ledger.read(lambda view: view.head().row_hash) == before


async def test_the_gateway_is_asked_for_what_only_it_knows(tmp_path):
    async with beside_a_gateway(tmp_path, allow_writes=False) as (_, ask):
        diagnosis = await ask("diagnose")
        assert [item for item in diagnosis["attention"] if item["kind"] == "workers_missing"]
        assert set((await ask("get_queues"))["queues"]) >= {"binding-evaluation"}


async def test_a_request_of_any_queue_is_shown_and_why_it_waits(ask: Asker, tmp_path):
    [authority] = await ask.values(
        "SELECT request_id FROM outbox WHERE queue = 'authority-recompute' LIMIT 1"
    )
    assert (await ask("get_request", request_id=authority))["state"] in ("open", "completed")
    async with beside_a_gateway(tmp_path, allow_writes=False) as (door, beside):
        [receipt] = await enqueued(door, f"/v1/queues/{BINDING_QUEUE}", binding("a"))
        request_id = receipt["request_id"]
        shown = await beside("get_request", request_id=request_id)
        assert shown["state"] == "open"
        path = f"/v1/queues/{BINDING_QUEUE}/requests/{request_id}/waiting"
        assert shown["waiting"] == (await door.http.get(path)).json()


async def test_a_halt_on_the_record_is_named_without_a_gateway(ask: Asker):
    diagnosis = await ask("diagnose")
    assert diagnosis["gateway"]["error"]["code"] == "gateway_unreachable"
    halts = diagnosis["record"]["halts"]
    named = [item for item in diagnosis["attention"] if item["kind"] == "implications_halted"]
    assert len(named) == len(halts) > 0
    command = f"rotulus implications resume {halts[0]['halt_id']}"
    assert named[0]["action"]["command"] == command


@pytest.mark.spec("§17.5")
async def test_a_quarantined_range_is_named_read_with_its_mark_and_not_computed_from(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(Ledger.create(SqliteStore(path), system_host())) as ledger:
        for number in range(3):
            submit(ledger, create(f"n-{number}", "Note"))
        copy = Copy(path)
        row = copy.a_row(schema.kernel_event_log)
        copy.set(schema.kernel_event_log, row, row_bytes=row["row_bytes"] + b" ")
        copy.close()
        audited(ledger)
    async with asking(path) as ask:
        diagnosis = await ask("diagnose")
        [quarantine] = diagnosis["record"]["quarantines"]
        assert quarantine["ranges"] == [{"first_sequence": "2", "last_sequence": "2"}]
        assert [item for item in diagnosis["attention"] if "row 2 of the log" in item["sentence"]]
        listed = (await ask("find_operations"))["operations"]
        assert [entry.get("quarantined") for entry in listed] == [None, True, None]
        recent = await ask("get_recent_activity", minutes=5)
        assert [total["operations"] for total in recent["by_intent"]] == [2]
        name = row["operation_id"]
        error = await ask.refused("preview_rollback", operation_id=name)
        assert error["code"] == "range_quarantined"


async def test_recent_activity_is_what_the_log_says_of_the_time(tmp_path):
    path = tmp_path / "ledger.db"
    with closing(Ledger.create(SqliteStore(path), system_host())) as ledger:
        for number in range(12):
            submit(ledger, create(f"n-{number}", "Note", title="x"))
    async with asking(path) as ask:
        recent = await ask("get_recent_activity", minutes=5)
        assert [total["operations"] for total in recent["by_intent"]] == [12]
        assert (recent["complete"], len(recent["newest"])) == (True, 10)
        sequences = [int(row["ec_sequence_number"]) for row in recent["newest"]]
        assert sequences == sorted(sequences, reverse=True)
        [log] = (await ask("list_log", order="newest", limit=1))["rows"]
        assert recent["newest"][0]["operation_id"] == log["operation_id"]


async def test_a_snapshot_is_what_the_gateway_answers(tmp_path):
    async with beside_a_gateway(tmp_path, allow_writes=False) as (door, ask):
        declared = (await door.declare(THOUGHTS, "a", "b", "c")).json()
        shown = await ask("get_session", session_id=THOUGHTS)
        assert {**shown, "summary": ""} == {**declared["snapshot"], "summary": ""}


def test_an_answer_is_never_longer_than_it_may_be():
    long = {"summary": "s", "text": "x" * 1_000_000, "list": [{"y": "z" * 900}] * 5000}
    cut = fit_answer(long)
    assert len(cut) <= ANSWER_BYTES_MAX
    assert json.loads(cut)["is_shortened"]
    assert "(+" in json.loads(cut)["text"]
    for kept in ({"is_exact": True}, {}):
        document = long if kept else long | {"next": None}
        with pytest.raises(ToolRefused) as refused:
            fit_answer(document, **kept)
        assert refused.value.code == "answer_too_large"


def test_a_page_that_is_cut_goes_on_behind_its_last_row():
    rows = [{"id": number, "text": "x" * 500} for number in range(200)]
    shown = page("rows", rows, lambda row: row["id"], None, str)
    last = shown["rows"][-1]["id"]
    assert 0 < len(shown["rows"]) < 200
    assert shown["next"] == {"after": str(last)}
    assert len(fit_answer(shown)) <= ANSWER_BYTES_MAX


def test_a_part_is_shown_whole_and_a_long_text_in_pieces():
    document = {"a": [{"text": "x" * 20_000}]}
    first = part_of(document, "a.0.text", 0)
    rest = part_of(document, "a.0.text", first["next"]["offset"])
    assert len(first["text"]) + len(rest["text"]) == 16_000
    for path in ("b", "a.1", "a.x", "a.0.text.y", "a.99999999999"):
        with pytest.raises(ToolRefused):
            part_of(document, path, 0)


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_what_is_short_is_left_as_it_is(value):
    assert shorten(value, 10_000, 10_000) == value


@pytest.mark.spec("§18.3", "INV-A-COST-1")
async def test_costs_of_any_size_are_summed_up(tmp_path):
    cost = "affected_subgraph_descriptor.estimated_capacity_cost"
    store = SqliteStore(tmp_path / "ledger.db")
    with unmeasured(), closing(Ledger.create(store, system_host())) as ledger:
        submit(ledger, *(changed(create(name, "Note"), {cost: 1e308}) for name in "ab"))
    async with asking(tmp_path / "ledger.db") as ask:
        [total] = (await ask("sum_costs"))["totals"]
        [recent] = (await ask("get_recent_activity", minutes=60))["by_intent"]
    assert total == recent
    assert (total["estimated_cost"], total["operations_over_limit"]) == (2e9, 2)


def numbers_of(tool):
    """Each number that a tool takes: its name, its least and its most."""
    for name, shape in TOOLS[tool].model_json_schema()["properties"].items():
        for part in (shape, *shape.get("anyOf", ())):
            if part.get("type") == "integer":
                yield name, part["minimum"], part["maximum"]


@pytest.mark.parametrize("tool", sorted(READING))
async def test_a_tool_takes_a_number_up_to_its_ends_and_no_further(folder, tool):
    context = ToolContext(folder / "ledger.db", lambda: "http://127.0.0.1:9")
    shape = TOOLS[tool].model_json_schema()
    known = {"session_id": THOUGHTS, "kind": "outcome", "sql": "SELECT 1 AS x"}
    required = {name: known.get(name, "1") for name in shape.get("required", ())}

    async def code_of(**arguments):
        [content] = (await call(context, tool, required | arguments)).content
        return json.loads(content.text).get("error", {}).get("code")

    for name, least, most in numbers_of(tool):
        for value in (least, most):
            assert await code_of(**{name: value}) not in ("INVALID_REQUEST", "internal"), name
        for value in (least - 1, most + 1, 10**400, "NaN", 1e308):
            assert await code_of(**{name: value}) == "INVALID_REQUEST", name
