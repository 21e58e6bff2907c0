"""A gateway that publishes its log, with one witness, in the test's own process."""

import anyio
import httpx

from kernel.proof.witness_policy import WitnessPolicy
from tests.signed_log import witness_key
from workers.environment.checkpoint_key import create_key
from workers.environment.settings import Settings
from workers.publication.log_publication import LogPublisher
from workers.publication.log_publishing import LogPublishing
from workers.publication.witnesses import WitnessClient
from workers.witness.cosigned_folder import CosignedFolder
from workers.witness.process import witness_app
from workers.witness.witness import Witness

WITNESS = witness_key(1)


class WitnessedLog:
    """The key of a log, its folder and its witness; `is_away` takes the witness away."""

    def __init__(self, folder):
        self.key, self.public = folder / "log.key", folder / "public"
        self.is_away = False
        cosigned = folder / "cosigned"
        CosignedFolder.make(cosigned)
        vkeys = [verifier.vkey for verifier in create_key(self.key, "example.com/log")]
        lines = [f"log {vkey}" for vkey in vkeys]
        lines += [f"witness w1 {WITNESS.verifier.vkey} http://witness.test", "quorum w1", ""]
        self.policy_bytes = "\n".join(lines).encode()
        self.policy = WitnessPolicy.of_bytes(self.policy_bytes)
        witness = Witness([WITNESS], self.policy, CosignedFolder(cosigned), lambda: 7)
        self._app = witness_app(witness, Settings(allowed_hosts="witness.test"))

    async def _answer(self, scope, receive, send):
        if self.is_away:
            raise ConnectionRefusedError
        await self._app(scope, receive, send)

    def publishing(self, ledger):
        """What a gateway publishes the log with; by time it would be due in an hour."""
        client = WitnessClient(self.policy, transport=httpx.ASGITransport(app=self._answer))
        publisher = LogPublisher(ledger.read, self.key, self.public, client)
        return LogPublishing(
            ledger,
            self.public,
            policy=self.policy,
            key_file=self.key,
            publisher=publisher,
            every_s=3600,
            clock_s=anyio.current_time,
        )
