"""A worker as its operator starts it, with something that evaluates bindings.

What it makes of a binding follows from the binding alone, so asking twice changes nothing.
"""

import os
import sys
from functools import partial

from kernel import fleet_protocol
from kernel.work.contents import BindingEvaluation
from tests.chaos import witness
from workers.cli.common import read_settings, redis_url, run
from workers.worker.handlers.binding_evaluator import Evaluated
from workers.worker.process import serve_worker


class SayYes:
    """Creates a target for every binding."""

    async def evaluate(self, _request_id: str, evaluation: BindingEvaluation) -> Evaluated:
        """Return the same for the same binding."""
        return Evaluated("succeeded", "target_created", f"target:{evaluation.binding_id}")


def speak_another_version(protocol: int) -> None:
    """Have every module of this process that knows the fleet's protocol know another one."""
    own = fleet_protocol.PROTOCOL
    for module in list(sys.modules.values()):
        if getattr(module, "PROTOCOL", None) is own:
            module.PROTOCOL = protocol  # type: ignore[attr-defined]


if __name__ == "__main__":
    witness.admit()
    if "ROTULUS_CHAOS_PROTOCOL" in os.environ:
        speak_another_version(int(os.environ["ROTULUS_CHAOS_PROTOCOL"]))
    settings = read_settings(None)
    run(partial(serve_worker, settings, redis_url(settings), SayYes()))
