"""A witness: what it remembers, what it answers over HTTP, and that no kill makes it forget."""

import os
import signal
from functools import partial

import anyio
import httpx
import pytest

from kernel.proof.add_checkpoint import REQUEST_BYTES_MAX, AddCheckpoint
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.equivocation import Equivocation
from kernel.proof.signed_note import signatures_of
from kernel.proof.verification import ProofInvalid
from kernel.proof.witness_policy import WitnessPolicy
from tests.signed_log import SignedLog, log_key
from tests.workers.cli.command import printed, rotulus
from workers.environment.key_file import CheckpointKeyUnusable, hold_keys
from workers.environment.settings import Settings
from workers.witness.cosigned_folder import CosignedFolder
from workers.witness.process import witness_app
from workers.witness.witness import Witness, cosigned_path, create_witness

LOG = SignedLog(20)
REWRITTEN = SignedLog(20, 3)
TIME_S = 1_700_000_000


def body(old_size, size, log=LOG):
    return AddCheckpoint(old_size, tuple(log.path(old_size, size)), log.signed(size)).to_bytes()


@pytest.fixture
def key_file(tmp_path):
    return tmp_path / "witness.key"


@pytest.fixture
def verifiers(key_file):
    return create_witness(key_file, "witness.example/w1")


@pytest.fixture
def opened(key_file, verifiers):
    logs = WitnessPolicy.of_bytes(f"log {LOG.verifiers[0].vkey}\nquorum none".encode())

    def opened():
        with hold_keys(key_file) as keys:
            return Witness(keys, logs, CosignedFolder(cosigned_path(key_file)), lambda: TIME_S)

    return opened


def times(answer, size, verifiers):
    assert answer.status == 200
    cosigned = LOG.signed(size).with_signatures(signatures_of(answer.body))
    return cosigned.holding(verifiers)


def test_a_checkpoint_is_cosigned_under_both_keys(opened, verifiers):
    assert times(opened().add(body(0, 5)), 5, verifiers) == dict.fromkeys(verifiers, TIME_S)
    assert times(opened().add(body(5, 9)), 9, verifiers) == dict.fromkeys(verifiers, TIME_S)
    assert times(opened().add(body(9, 9)), 9, verifiers) == dict.fromkeys(verifiers, TIME_S)


def test_a_witness_remembers_over_a_restart(opened):
    opened().add(body(0, 9))
    witness = opened()
    stale = witness.add(body(0, 12))
    assert (stale.status, stale.body, stale.media_type) == (409, "9\n", "text/x.tlog.size")
    assert witness.add(body(9, 12, REWRITTEN)).status == 422
    assert witness.add(body(9, 9, REWRITTEN)).status == 409
    assert witness.add(body(9, 12)[:40]).status == 400
    assert witness.add(body(9, 12)).status == 200


def test_equivocation_leaves_a_file_that_convicts_the_log(opened, key_file, tmp_path):
    witness = opened()
    witness.add(body(0, 9))
    witness.add(body(9, 12, REWRITTEN))
    [evidence] = cosigned_path(key_file).glob("*.evidence.json")
    content = evidence.read_bytes()
    Equivocation.of_bytes(content).check(LOG.verifiers)
    witness.add(body(9, 9, REWRITTEN))
    assert evidence.read_bytes() == content, "the first evidence stays"
    vkey = LOG.verifiers[0].vkey
    shown = printed("verify", "--evidence", str(evidence), "--vkey", vkey, "--json")
    assert (shown["verdict"], shown["origin"]) == ("diverged", "example.com/log")


def test_logs_are_apart(key_file, verifiers):
    other = SignedLog(7, keys=(log_key("example.com/other", seed=b"o"),))
    lines = "\n".join(f"log {log.verifiers[0].vkey}" for log in (LOG, other))
    with hold_keys(key_file) as keys:
        logs = WitnessPolicy.of_bytes(f"{lines}\nquorum none".encode())
        cosigned = CosignedFolder(cosigned_path(key_file))
        witness = Witness(keys, logs, cosigned, lambda: TIME_S)
    assert [witness.add(body(0, size, log)).status for size, log in ((9, LOG), (7, other))] == [
        200,
        200,
    ]
    unknown = SignedLog(7, keys=(log_key("example.com/unknown"),))
    assert witness.add(body(0, 7, unknown)).status == 404


@pytest.mark.parametrize("removed", ["checkpoint", "index.json", "put back"])
def test_a_witness_of_which_one_file_was_removed_cosigns_no_other_history(
    opened, key_file, removed
):
    opened().add(body(0, 5))
    folder = cosigned_path(key_file)
    older = {path: path.read_bytes() for path in folder.glob("*.checkpoint")}
    opened().add(body(5, 9))
    [file] = folder.glob(f"*{removed}") if removed != "put back" else older
    file.unlink()
    if removed == "put back":
        file.write_bytes(older[file])
    if removed == "index.json":
        assert opened().add(body(0, 9, REWRITTEN)).status in (409, 422)
        assert opened().add(body(9, 12)).status == 200
        return
    for size in (5, 9, 12):
        with pytest.raises(CheckpointKeyUnusable, match="not cosigned any more"):
            opened().add(body(0, size, REWRITTEN))
    with pytest.raises(CheckpointKeyUnusable, match="not cosigned any more"):
        opened().add(body(5, 12))


def test_a_witness_from_before_the_index_misses_no_file_once_it_has_cosigned_again(
    opened, key_file
):
    opened().add(body(0, 5))
    folder = cosigned_path(key_file)
    (folder / "index.json").unlink()
    assert opened().add(body(5, 9)).status == 200
    [file] = folder.glob("*.checkpoint")
    file.unlink()
    with pytest.raises(CheckpointKeyUnusable):
        opened().add(body(0, 9, REWRITTEN))


def test_a_witness_that_has_lost_what_it_cosigned_does_not_start(opened, key_file):
    opened().add(body(0, 9))
    folder = cosigned_path(key_file)
    [file] = folder.glob("*.checkpoint")
    file.write_text("nothing")
    with pytest.raises(CheckpointKeyUnusable):
        opened().add(body(0, 9))
    folder.rename(key_file.with_name("away"))
    with pytest.raises(CheckpointKeyUnusable):
        opened()


def test_keys_are_made_by_a_command_and_never_written_over(tmp_path):
    path = tmp_path / "w.key"
    made = printed("witness", "key", str(path), "--name", "witness.example/w1", "--json")
    assert made["vkey"].startswith("witness.example/w1+")
    assert (path.stat().st_mode & 0o777, cosigned_path(path).stat().st_mode & 0o777) == (
        0o600,
        0o700,
    )
    again = rotulus("witness", "key", str(path), "--name", "w")
    assert "checkpoint_key_unusable" in again.stderr
    path.unlink()
    (cosigned_path(path) / "something").touch()
    assert "has cosigned there" in rotulus("witness", "key", str(path), "--name", "w").stderr
    assert rotulus("witness", "key", str(path), "--name", "a b").exit_code == 2


STEPS = ("fsync", "rename", "open", "write")


def killed_before(step, add, content):
    """Let a process call a witness, killed before its step; return the steps that it made."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def counted(name, call, *arguments, **options):
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        for name in STEPS:
            setattr(os, name, partial(counted, name, getattr(os, name)))
        answer = add(content)
        os.fdopen(theirs, "w").write(f"{count} {answer.status}")
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def test_a_kill_at_any_step_leaves_the_old_checkpoint_or_the_new_one(opened, key_file):
    opened().add(body(0, 5))
    [file] = cosigned_path(key_file).glob("*.checkpoint")
    before = {path: path.read_bytes() for path in cosigned_path(key_file).iterdir()}
    total, status = killed_before(0, opened().add, body(5, 9)).split()
    assert (status, SignedCheckpoint.of_bytes(file.read_bytes()).stated.size) == ("200", 9)
    sizes = set()
    for step in range(1, int(total) + 1):
        for path, content in before.items():
            path.write_bytes(content)
        assert killed_before(step, opened().add, body(5, 9)) == ""
        size = SignedCheckpoint.of_bytes(file.read_bytes()).stated.size
        sizes.add(size)
        # Whatever was killed, the log can go on, and no other history is cosigned.
        assert opened().add(body(size, 9, REWRITTEN)).status in (409, 422)
        assert opened().add(body(size, 9)).status == 200
    assert sizes == {5, 9}


@pytest.fixture
def http(opened):
    app = witness_app(opened(), Settings(), requests_max=4)
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8441")


@pytest.mark.anyio
async def test_the_statuses_are_those_of_the_specification(http, verifiers):
    async with http:
        post = partial(http.post, "/add-checkpoint")
        answer = await post(content=body(0, 5))
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        cosigned = LOG.signed(5).with_signatures(signatures_of(answer.text))
        assert cosigned.holding(verifiers)
        conflict = await post(content=body(0, 9))
        assert (conflict.status_code, conflict.text) == (409, "5\n")
        assert conflict.headers["content-type"] == "text/x.tlog.size"
        assert (await post(content=b"nonsense")).status_code == 400
        stranger = SignedLog(9, keys=(log_key(seed=b"s"),))
        assert (await post(content=body(0, 9, stranger))).status_code == 403
        too_long = await post(content=b"x" * (REQUEST_BYTES_MAX + 1))
        assert too_long.status_code == 413
        assert (await http.get("/add-checkpoint")).status_code == 405
        assert (await http.get("/healthz")).text == "ok\n"
        from_a_page = await post(content=body(5, 9), headers={"Origin": "https://evil.example"})
        assert from_a_page.status_code == 403
        assert (await post(content=body(5, 9), headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.anyio
async def test_a_crowd_is_served_one_after_the_other(http):
    answers = []

    async def ask(http):
        answers.append((await http.post("/add-checkpoint", content=body(0, 9))).status_code)

    async with http, anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(ask, http)
    assert (answers.count(200), set(answers)) == (1, {200, 409, 503})


@pytest.mark.anyio
async def test_a_witness_that_cannot_remember_cosigns_nothing(http, key_file):
    cosigned_path(key_file).rename(key_file.with_name("away"))
    async with http:
        answer = await http.post("/add-checkpoint", content=body(0, 9))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "witness_unavailable")
    with pytest.raises(ProofInvalid):
        signatures_of(answer.text)
