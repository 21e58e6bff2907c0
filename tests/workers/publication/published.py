"""A log with its key, its folder and a witness, all in one folder, for tests that publish it."""

import shutil

import httpx

from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.witness_policy import WitnessPolicy
from kernel.values.canonical import digest
from tests.contract.test_log_tree import add_rows
from tests.kernel.build import ledger_on, submit
from tests.kernel.test_key_handover import stated
from tests.signed_log import witness_key
from workers.environment.checkpoint_key import create_key, hold_key
from workers.environment.settings import Settings
from workers.publication.log_publication import LogPublisher
from workers.publication.log_publishing import LogPublishing
from workers.publication.witnesses import WitnessClient
from workers.witness.cosigned_folder import CosignedFolder
from workers.witness.process import witness_app
from workers.witness.witness import Witness

ORIGIN = "example.com/log"
WITNESS = witness_key(1)
WITNESS_URL = "http://witness.test"


class LogWorld:
    """The files of a log below one folder; `copied` is the same as the files are now."""

    ledger: Ledger
    vkeys: list[str]

    def __init__(self, folder):
        self.folder = folder
        self.key, self.public = folder / "log.key", folder / "public"
        self.cosigned = folder / "cosigned"
        self.database = folder / "ledger.db"

    @classmethod
    def made(cls, folder):
        folder.mkdir()
        world = cls(folder)
        world.vkeys = [verifier.vkey for verifier in create_key(world.key, ORIGIN)]
        CosignedFolder.make(world.cosigned)
        return world.opened()

    def opened(self, store=None):
        self.ledger, _ = ledger_on(store or SqliteStore(self.database))
        return self

    def close(self):
        self.ledger.close()

    def grow(self, count, name="row"):
        add_rows(self.ledger, count, name=name)

    def rewind(self, rows, name):
        """Put the ledger back to so many rows, and let others follow."""
        self.ledger.close()
        self.database.unlink()
        self.opened().grow(rows)
        self.grow(2, name)

    def hand_over(self, name):
        """Hand the log over to new keys, on the log; from then on they publish it."""
        old, self.key = self.key, self.folder / name
        create_key(self.key, ORIGIN)
        with hold_key(old) as held, hold_key(self.key) as successor:
            handover = held.hand_over(successor)
        self.record(handover.document)
        return handover

    def record(self, document):
        """Put a hand-over onto the log, as a gateway does."""
        envelope = stated(document, idempotency_key=digest(document))
        assert submit(self.ledger, envelope, submitter="orchestrator").ec_sequence_number

    def policy(self):
        lines = [f"log {vkey}" for vkey in self.vkeys]
        lines += [f"witness w1 {WITNESS.verifier.vkey} {WITNESS_URL}", "quorum w1"]
        return WitnessPolicy.of_bytes("\n".join(lines).encode())

    def witness(self):
        return Witness([WITNESS], self.policy(), CosignedFolder(self.cosigned), lambda: 7)

    def witnesses(self):
        app = witness_app(self.witness(), Settings(allowed_hosts="witness.test"))
        return WitnessClient(self.policy(), transport=httpx.ASGITransport(app=app))

    def publisher(self, witnesses=None):
        return LogPublisher(self.ledger.read, self.key, self.public, witnesses)

    def publishing(self, witnesses=None, **options):
        publisher = self.publisher(witnesses)
        policy = None if witnesses is None else self.policy()
        return LogPublishing(
            self.ledger,
            self.public,
            policy=policy,
            key_file=self.key,
            publisher=publisher,
            **options,
        )

    def published(self):
        return SignedCheckpoint.of_bytes((self.public / "checkpoint").read_bytes())

    def keep(self, name, path):
        """Keep a copy of a file, as a backup has it."""
        shutil.copy(path, self.folder / name)
        return self.folder / name
