"""The environment in which a test, a benchmark or a run of faults starts processes of its own."""

import os


def process_environment() -> dict[str, str]:
    """Return this process's variables without settings, but for two.

    No work is throttled: a test does in a second what a service does in a day, and waits for what
    is background work. A gateway binds any free port, because others run beside it. A process that
    may not keep what it compiled compiles it again at each start, so each may.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ROTULUS_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return inherited | {"ROTULUS_KERNEL_EMERGENCY_THROTTLE_OPS_PER_SEC": "0", "ROTULUS_PORT": "0"}
