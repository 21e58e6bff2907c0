"""One undisturbed run that every disturbed one is compared with."""

import fcntl
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.system.essence import essence, outcomes_for_each_request, rows_of
from tests.system.reference import Reference, two_dockets
from tests.system.tree_run import TreeRun, demo
from workers.environment.ledger_verification import verify_file

HANGS_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.slow)
            # Ends what hangs: a machine that does much else runs a process tree for minutes.
            limit = item.get_closest_marker("timeout")
            if limit is None or limit.args[0] < HANGS_S:
                item.add_marker(pytest.mark.timeout(HANGS_S), append=False)
            if sys.platform != "linux":
                item.add_marker(pytest.mark.skip("processes are found in /proc"))


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """The undisturbed run: one for all processes of the test run, made by the first that asks."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    kept = shared / "undisturbed.pickle"
    with (shared / "undisturbed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(_undisturbed(shared / "undisturbed")))
    reference: Reference = pickle.loads(kept.read_bytes())  # noqa: S301 - written above
    return reference


def _undisturbed(folder: Path) -> Reference:
    folder.mkdir()
    file = folder / "dockets.jsonl"
    file.write_bytes(two_dockets())
    with demo(folder / "data", file) as run:
        assert run.finish() == 0, run.stderr
        return Reference(
            file=file,
            data_dir=run.data_dir,
            report=run.report(),
            stderr=run.stderr,
            rows=rows_of(run.ledger_path),
            essence=essence(run.ledger_path),
        )


@pytest.fixture(scope="session")
def replicated() -> Iterator[Any]:
    """One primary with its standby for the run; whoever uses it begins with `settle`."""
    pytest.importorskip("psycopg", reason="no PostgreSQL: the driver is not installed")
    from tests.postgres import NoPostgresError  # noqa: PLC0415 - needs the driver
    from tests.replicated_postgres import replicated_postgres  # noqa: PLC0415 - likewise

    with ExitStack() as stack:
        try:
            servers = stack.enter_context(replicated_postgres())
        except NoPostgresError as error:
            pytest.skip(str(error))
        yield servers


@pytest.fixture
def check(reference: Reference) -> Callable[[TreeRun], None]:
    """Ends a run and asserts that its record is what the undisturbed run gave."""

    def finished_alike(run: TreeRun) -> None:
        assert run.finish() == 0, run.stderr
        report = run.report()
        assert report["failures"] == []
        assert report["requests"]["open"] == 0
        assert outcomes_for_each_request(run.ledger_path) == {1}
        verification = verify_file(run.ledger_path, lambda _done, _total: None)
        assert verification.findings == ()
        assert verification.requests_open == 0
        assert verification.authorities_pending == 0
        essences = essence(run.ledger_path)
        for part, expected in reference.essence.items():
            assert essences[part] == expected, part

    return finished_alike
