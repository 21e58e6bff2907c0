"""The environment in which a test, a benchmark or a run of faults starts processes of its own."""

import os


def process_environment() -> dict[str, str]:
    """Return this process's variables without settings, but for one: no work is throttled.

    A test does in a second what a service does in a day, and waits for what is background work.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ROTULUS_")}
    return inherited | {"ROTULUS_KERNEL_EMERGENCY_THROTTLE_OPS_PER_SEC": "0"}
