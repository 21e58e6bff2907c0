"""A gateway whose process is killed after a commit and before anybody is answered, once.

    python -m tests.workers.gateway.gateway_to_be_killed DATA_DIR PORT REDIS_URL [ARM]

While the file ARM is there, the next commit ends the process; the file goes with it.
"""

import os
import signal
import sys
from pathlib import Path

import anyio

from queues.gateways.work_notices import WorkNotices
from workers.environment.settings import Settings
from workers.gateway.process import serve_gateway


def die_at_commit(arm: Path) -> None:
    """A notice is due in the same turn of the loop after a commit, so no answer was sent yet."""

    def die(self: WorkNotices) -> None:
        if arm.exists():
            arm.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    WorkNotices.notify = die  # type: ignore[method-assign]


if __name__ == "__main__":
    data_dir, port, redis_url, *arms = sys.argv[1:]
    for arm in arms:
        die_at_commit(Path(arm))
    settings = Settings(data_dir=Path(data_dir), port=int(port))
    anyio.run(serve_gateway, settings, redis_url)
