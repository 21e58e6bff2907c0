"""Gives what tests of jobs import: a job in memory, and queues on a real kernel in memory."""

from workers.plugins.testing import (
    Drained,
    DrainEndless,
    EnqueuedJob,
    JobFailure,
    JobRunner,
    MovedClock,
    Queues,
    run_job,
)

__all__ = [
    "DrainEndless",
    "Drained",
    "EnqueuedJob",
    "JobFailure",
    "JobRunner",
    "MovedClock",
    "Queues",
    "run_job",
]
