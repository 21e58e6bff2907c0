"""The real clock and the real randomness, taken here and handed in everywhere else."""

import os
import time

from kernel.host import Host


def system_host() -> Host:
    """Return the host of this process."""
    return Host(lambda: time.time_ns() // 1000, os.urandom)
