"""How a process of a run speaks another version of the fleet's protocol than the others."""

import os
import sys

from kernel.values import fleet_protocol

VARIABLE = "CHAOS_PROTOCOL"


def speak_another_version() -> None:
    """Have every module of this process that knows the protocol know the one in its environment."""
    if VARIABLE not in os.environ:
        return
    own = fleet_protocol.PROTOCOL
    for module in list(sys.modules.values()):
        if getattr(module, "PROTOCOL", None) is own:
            module.PROTOCOL = int(os.environ[VARIABLE])  # type: ignore[attr-defined]
