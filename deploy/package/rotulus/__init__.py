"""Gives the names that a user's own jobs and plug-ins import."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.plugins import (
        App,
        AppJob,
        JobContext,
        JobRefused,
        QueuePlugin,
        Retry,
        RetryAfter,
        Schedule,
    )

__all__ = [
    "App",
    "AppJob",
    "JobContext",
    "JobRefused",
    "QueuePlugin",
    "Retry",
    "RetryAfter",
    "Schedule",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Return a name that is loaded when it is first asked for: a command needs none of them."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from workers import plugins  # noqa: PLC0415

        value = globals()[name] = getattr(plugins, name)
        return value
