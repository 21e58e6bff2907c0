"""What a tree keeps to itself: its files, its secrets, its ports; and what it leaves behind."""

import os
import shutil
import signal
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests import loopback
from tests.system.gateways import running_gateways
from tests.system.tree_run import FINISH_S, TreeRun, command_on, running, wait_for
from workers.dockets.reader import sample_path
from workers.environment.child_environment import MACHINE, SETTINGS_OF
from workers.environment.ledger_verification import verify_file
from workers.environment.listening import AddressUnusableError, listen
from workers.environment.settings import variable_of

SECRETS = {
    "ROTULUS_USER_CONFIRMATION_KEY": "the-user-signs-with-this-secret-key",
    "ROTULUS_ARCHITECT_CONFIRMATION_KEY": "the-architect-signs-with-this-secret",
    "ROTULUS_MODEL_KEY": "the-model-is-asked-with-this-secret",
    "SOMEBODY_ELSES_SECRET": "which-is-no-business-of-ours",
}


def environment_of(pid: int) -> dict[str, str]:
    content = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(variable.partition("=")[::2] for variable in content if "=" in variable)


def command_line_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def files_of(run: TreeRun) -> dict[str, int]:
    """The mode of every file and folder of the tree."""
    paths = [run.data_dir, *run.data_dir.rglob("*")]
    return {
        str(path.relative_to(run.data_dir)): stat.S_IMODE(path.lstat().st_mode) for path in paths
    }


def verifies(ledger: Path) -> int:
    verification = verify_file(ledger, lambda _done, _total: None)
    assert verification.ok, verification.findings
    return verification.rows


@dataclass(frozen=True)
class StoppedTree:
    """A tree that did work, what its processes were given, and what it left when it was stopped."""

    run: TreeRun
    password: str
    """That of its Redis."""

    command_lines: list[str]
    environments: dict[str, dict[str, str]]
    """By role."""

    modes: dict[str, int]
    """Of its files, while it worked."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> StoppedTree:
    before = os.umask(0)
    try:
        with running(
            tmp_path_factory.mktemp("private") / "data", "demo", env=SECRETS, as_operator=True
        ) as run:
            run.wait_until_up()
            run.wait_for_rows(50)
            members = run.members()
            assert sorted(members.values()) == ["gateway", "redis", "root", "worker"]
            tree = StoppedTree(
                run,
                (run.data_dir / "redis" / "password").read_text(),
                [command_line_of(pid) for pid in members],
                {role: environment_of(pid) for pid, role in members.items()},
                files_of(run),
            )
            run.process.send_signal(signal.SIGINT)
            run.finish()
    finally:
        os.umask(before)
    return tree


def test_each_process_is_given_what_it_needs_and_no_command_line_has_a_secret(stopped):
    for secret in (*SECRETS.values(), stopped.password):
        assert not [line for line in stopped.command_lines if secret in line]
    environments = stopped.environments
    beside = {"ROTULUS_PARENT_PID", "ROTULUS_LISTENING_FD"}
    for kind, names in SETTINGS_OF.items():
        env = environments[kind]
        ours = {name for name in env if name.startswith("ROTULUS_")} - beside
        assert ours <= {variable_of(name) for name in names}
        rest = {name for name in env if not name.startswith(("ROTULUS_", "LC_", "MALLOC_"))}
        assert rest <= MACHINE
        assert "which-is-no-business-of-ours" not in env.values()
    # A worker asks the model for what a source says.
    asks_with = {SECRETS["ROTULUS_MODEL_KEY"]}
    assert set(SECRETS.values()) & set(environments["worker"].values()) == asks_with
    assert set(list(SECRETS.values())[:3]) <= set(environments["gateway"].values())
    redis = environments["redis"]
    assert not [name for name in redis if name.startswith("ROTULUS_")]
    assert not set(SECRETS.values()) & set(redis.values())


def test_every_file_of_a_tree_is_for_its_owner_alone(stopped):
    """Whatever the mask with which it was started."""
    assert {"ledger.db", "ledger.db-wal", "redis/server.log", "runtime.json"} <= (
        stopped.modes.keys()
    )
    assert {name: oct(mode) for name, mode in stopped.modes.items() if mode & 0o077} == {}


def test_nobody_has_the_port_of_a_tree_whose_gateway_is_dead(tmp_path):
    """What comes meanwhile waits for the next gateway and is answered by it."""
    with running(tmp_path / "data", "up") as run:
        url = httpx.URL(run.wait_until_up()["gateway_url"])
        assert url.port is not None
        for _ in range(2):
            run.kill("gateway")
            with pytest.raises(AddressUnusableError):
                listen("127.0.0.1", url.port)
            assert loopback.get(url.join("/healthz"), timeout=30).status_code == 200


def test_a_port_of_metrics_that_somebody_has_is_an_error_too(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = str(stranger.getsockname()[1])
        environment = {"ROTULUS_WORKER_METRICS_PORT": port}
        with running(tmp_path / "data", "up", env=environment) as run:
            assert run.finish() == 1
            assert "address_unusable" in run.stderr
            assert "ROTULUS_WORKER_METRICS_PORT" in run.stderr


def test_the_ledger_is_one_file_after_a_tree_and_a_copy_of_it_is_the_record(stopped, tmp_path):
    leaves_one_file(stopped.run, tmp_path)


def test_the_ledger_is_one_file_after_a_tree_whose_gateway_was_killed(tmp_path):
    with running(tmp_path / "data", "demo") as run:
        run.wait_until_up()
        run.wait_for_rows(50)
        # Stopped before it is started again, so nobody folds but the tree itself.
        run.kill("gateway")
        run.process.send_signal(signal.SIGINT)
        run.finish()
    leaves_one_file(run, tmp_path)


def leaves_one_file(run: TreeRun, tmp_path: Path) -> None:
    """See that the folder of a tree has the ledger in one file, also after it was read."""
    assert sorted(path.name for path in run.data_dir.glob("ledger*")) == ["ledger.db"]
    copy = tmp_path / "copy" / "ledger.db"
    copy.parent.mkdir()
    shutil.copyfile(run.data_dir / "ledger.db", copy)
    assert verifies(copy) >= 50
    for arguments in (("verify",), ("export", "--output", str(tmp_path / "log"))):
        code, said = command_on(run.data_dir, *arguments)
        assert code == 0, said
        assert sorted(path.name for path in run.data_dir.glob("ledger*")) == ["ledger.db"]


def test_of_gateways_that_share_a_file_the_last_leaves_one_file(tmp_path):
    with running_gateways(tmp_path) as gateways:
        for gateway in gateways.pair():
            gateway.send(signal.SIGTERM)
            assert gateway.process.wait(20) == 0
    assert sorted(path.name for path in (tmp_path / "data").glob("ledger*")) == ["ledger.db"]
    assert verifies(tmp_path / "data" / "ledger.db") == 0


@pytest.mark.timeout(300)
@pytest.mark.spec("P4")
def test_a_newcomers_second_command_raises_no_alarm(tmp_path):
    """The log of a demo goes on under the key that lies in its folder, or `up` would cry wolf."""
    data = tmp_path / "data"
    dockets = tmp_path / "dockets.jsonl"
    with sample_path().open() as sample:
        dockets.write_text(next(sample))
    with running(data, "demo", str(dockets)) as demo:
        wait_for("the report", lambda: "dashboard" in demo.stdout, FINISH_S)
        demo.process.send_signal(signal.SIGINT)
        demo.finish()
    with running(data, "up") as up:
        up.wait_until_up()
        wait_for("the tree's word", lambda: "dashboard" in up.stdout, FINISH_S)
        for command, said in (("status", "consistent"), ("doctor", "demo-log.key signs the log")):
            text = command_on(data, command)[1]
            assert said in text, text
            assert "invalid" not in text
