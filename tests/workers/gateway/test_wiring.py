"""A gateway as its process puts it together, without a server, a file or a Redis of its own."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from fakeredis import FakeAsyncRedis

from actors.commit.units import IntentUnit
from actors.orchestrator.intents import CreateCase
from kernel.ledger.archive import Archive
from kernel.ledger.archive_segment import SEGMENT_ROWS
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.memory import MemoryStore
from kernel.model.result import SubmissionResult
from kernel.proof.witness_policy import PolicyInvalid
from kernel.retention.log_archival import HOT_ROWS_MIN
from tests.kernel.archives import memory_archive
from tests.kernel.build import FakeHost, create, memory_ledger, submit
from tests.workers.api.door import ONTOLOGY, SESSION, eventually, http_client
from workers.environment.checkpoint_key import create_key
from workers.environment.ledger_clock import LedgerClock
from workers.environment.settings import Settings
from workers.gateway.wiring import Gateway, build_gateway
from workers.publication.log_publishing import publishing_of

pytestmark = pytest.mark.anyio

HYPOTHESES = ["a", "b", "c"]
THROTTLE = "kernel_emergency_throttle_ops_per_sec"


def gateway_in(folder: Path, ledger: Ledger | None = None, **options: Any) -> Gateway:
    settings = Settings(data_dir=folder, shards=4, **options)
    return build_gateway(
        settings, ledger or memory_ledger(), FakeAsyncRedis(), "gateway-1", LedgerClock()
    )


async def asked(gateway: Gateway, questions: Callable[[Any], Awaitable[None]]) -> None:
    """Ask a gateway while it runs."""

    async def serve() -> None:
        async with http_client(gateway.app) as http:
            await questions(http)

    await gateway.sharing.begin()
    await gateway.run(serve())
    await gateway.aclose()


async def test_a_gateway_in_a_tests_own_process_is_the_one_that_its_process_runs(tmp_path: Path):
    gateway = gateway_in(tmp_path)
    answers = []

    async def serve() -> None:
        async with http_client(gateway.app) as http:
            answers.append(await http.get("/readyz"))
            declared = {"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": HYPOTHESES}
            answers.append(await http.post("/v1/sessions", json=declared))
            struck = {"source_id": "s", "observation_id": "o-1", "eliminated": ["a"]}
            path = f"/v1/sessions/{SESSION}/eliminate"
            answers.append(await http.post(path, json=struck))

    await gateway.sharing.begin()
    await gateway.run(serve())
    await gateway.aclose()
    assert [answer.status_code for answer in answers] == [200, 201, 200]
    assert answers[0].json()["shards"] == {"owned": 4, "of": 4}


async def test_a_gateway_that_leaves_owns_nothing_any_more(tmp_path: Path):
    gateway = gateway_in(tmp_path)

    async def serve() -> None:
        await eventually(lambda: len(gateway.sharing.held_shards.held) == 4)
        await gateway.leave()

    await gateway.sharing.begin()
    await gateway.run(serve())
    with gateway.services.ledger.view() as view:
        assert view.head().ec_sequence_number == 0
    assert gateway.sharing.held_shards.held == {}
    await gateway.aclose()


async def test_a_gateway_with_a_key_publishes_the_log_by_itself(tmp_path: Path):
    key = tmp_path / "log.key"
    create_key(key, "example.com/log")
    gateway = gateway_in(tmp_path / "data", checkpoint_key=key, checkpoint_folder=tmp_path / "out")
    answers = []

    async def serve() -> None:
        async with http_client(gateway.app) as http:
            with anyio.fail_after(10):
                while (answer := await http.get("/checkpoint")).status_code != 200:
                    await anyio.sleep(0.01)
            answers.extend((answer, await http.get("/v1/checkpoint"), await http.get("/metrics")))

    await gateway.sharing.begin()
    await gateway.run(serve())
    await gateway.aclose()
    assert answers[0].text.startswith("example.com/log\n0\n")
    assert answers[1].json()["checkpoint"]["verdict"] == "unwitnessed"
    assert 'rotulus_checkpoint_rows{verdict="unwitnessed"} 0' in answers[2].text


def test_a_gateway_does_not_start_with_witnesses_that_cannot_be_read(tmp_path: Path):
    settings = Settings(data_dir=tmp_path, witness_policy=tmp_path / "none")
    with pytest.raises(PolicyInvalid):
        publishing_of(settings, memory_ledger(), lambda: 0.0, anyio.lowlevel.checkpoint)


# What a gateway does of itself where nobody has set anything

DAY_US = 24 * 3600 * 1_000_000
TOKEN = "the-token-of-these-tests"  # noqa: S105 - made up here


async def archived(http: Any) -> dict[str, Any]:
    """What the hourly cron of a fleet has a gateway do."""
    answer = await http.post(
        "/internal/crons/log-archival", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def old_ledger(archive: Archive | None) -> tuple[Ledger, FakeHost]:
    """A ledger with one segment more than what always stays in the database."""
    fake = FakeHost()
    ledger = Ledger.create(MemoryStore(), fake.host, archive)
    for number in range(SEGMENT_ROWS + HOT_ROWS_MIN):
        submit(ledger, create(f"n-{number}", "Note"))
    return ledger, fake


@pytest.mark.spec("§17.7", "K23")
async def test_rows_older_than_ninety_days_are_archived_without_anybody_asking(tmp_path: Path):
    ledger, fake = old_ledger(memory_archive())
    gateway = gateway_in(tmp_path, ledger, worker_token=TOKEN)

    async def questions(http: Any) -> None:
        fake.time_us += 89 * DAY_US
        assert (await archived(http))["rows_moved"] == 0
        fake.time_us += 2 * DAY_US
        assert (await archived(http))["rows_moved"] == SEGMENT_ROWS
        assert (await http.get("/v1/archive")).json() == {
            "is_configured": True,
            "retention_days": 90,
            "audit_horizon_days": 2557,
        }

    await asked(gateway, questions)


@pytest.mark.spec("§17.7")
async def test_where_there_is_no_place_for_an_archive_rows_stay_and_the_gateway_says_so(
    tmp_path: Path,
):
    ledger, fake = old_ledger(None)
    gateway = gateway_in(tmp_path, ledger, worker_token=TOKEN)

    async def questions(http: Any) -> None:
        fake.time_us += 1000 * DAY_US
        done = await archived(http)
        assert (done["rows_moved"], done["is_complete"]) == (0, True)
        assert not (await http.get("/v1/archive")).json()["is_configured"]
        by_name = await http.post("/v1/archive/runs", json={"older_than_days": 90})
        assert by_name.json()["error"]["code"] == "archive_not_configured"

    await asked(gateway, questions)


@pytest.mark.spec("§17.7")
async def test_who_keeps_everything_says_so_with_zero_days(tmp_path: Path):
    ledger, fake = old_ledger(memory_archive())
    gateway = gateway_in(
        tmp_path, ledger, worker_token=TOKEN, kernel_retention_days=0, audit_horizon_days=0
    )

    async def questions(http: Any) -> None:
        fake.time_us += 10_000 * DAY_US
        assert (await archived(http))["rows_moved"] == 0
        document = (await http.get("/v1/archive")).json()
        assert (document["retention_days"], document["audit_horizon_days"]) == (None, None)

    await asked(gateway, questions)


def of_the_runtime(number: int) -> IntentUnit:
    intent = CreateCase(intent_key=f"c-{number}", case_ref=f"c-{number}", corpus_id="corpus:c")
    return IntentUnit(intent, None, "system")


@pytest.mark.spec("§18.1", "K23")
@pytest.mark.parametrize(("options", "threshold"), [({}, 100), ({THROTTLE: 40}, 40)])
async def test_the_emergency_throttle_is_armed_without_anybody_asking(
    tmp_path: Path, options: dict[str, int], threshold: int
):
    fake = FakeHost()
    ledger = memory_ledger(fake)
    gateway = gateway_in(tmp_path, ledger, **options)

    async def questions(_: Any) -> None:
        write = gateway.services.write
        fake.time_us += 1_100_000  # after what a gateway writes when it begins
        for number in range(threshold - 1):
            submit(ledger, create(f"n-{number}", "Note"))
        assert isinstance(await write(of_the_runtime(1)), SubmissionResult)
        refused = await write(of_the_runtime(2))
        assert refused.rejection.reason_code == "emergency_throttle"
        assert refused.rejection.retry_after_s == 1
        users = replace(of_the_runtime(3), actor="user")
        assert isinstance(await write(users), SubmissionResult)
        fake.time_us += 1_100_000
        assert isinstance(await write(of_the_runtime(2)), SubmissionResult)

    await asked(gateway, questions)


async def test_zero_operations_a_second_throttle_nothing(tmp_path: Path):
    ledger = memory_ledger()
    gateway = gateway_in(tmp_path, ledger, **{THROTTLE: 0})
    for number in range(300):
        submit(ledger, create(f"n-{number}", "Note"))

    async def questions(_: Any) -> None:
        assert isinstance(await gateway.services.write(of_the_runtime(1)), SubmissionResult)

    await asked(gateway, questions)
