"""States how often a job is tried, after which pauses, and after which errors."""

from dataclasses import dataclass

from kernel.work.retry_policy import (
    ATTEMPTS_MAX,
    ELAPSED_MS_MAX,
    PAUSE_MS_MAX,
    SNOOZES,
    RetryPolicy,
)
from workers.environment.foreign_threads import ForeignCodeHangs


@dataclass(frozen=True, slots=True)
class Retry:
    """The retries of a queue: by default 14 attempts in three and a half to five and a half hours.

    The pause doubles with each failure. Which errors are worth another attempt is decided where the
    job runs; the rest is decided on the record, so it holds whatever was restarted or flushed.
    """

    attempts: int = 14
    """Attempts that may fail; the last of them makes a dead letter."""

    pause_s: float = 5.0
    """The pause after the first failure."""

    pause_s_max: float = 3600.0
    """The longest pause; at most five days."""

    jitter: float = 0.2
    """How much longer or shorter a pause may be, as a share of it; at most 0.3."""

    elapsed_s_max: float | None = None
    """No failed attempt is followed by one that begins later than this after the first one began;
    waiting before the first is free, and of snoozes only their count is bounded."""

    on: tuple[type[BaseException], ...] = (BaseException,)
    """Errors that are worth another attempt: by default all, a cancellation of its own and
    `sys.exit` among them. A time limit that passed is a `TimeoutError`."""

    never: tuple[type[BaseException], ...] = ()
    """Errors that are not, although they are of a class in `on`."""

    snoozes: int = SNOOZES
    """How often a job may raise `RetryAfter`."""

    @property
    def policy(self) -> RetryPolicy:
        """What the record keeps of it."""
        elapsed = self.elapsed_s_max
        return RetryPolicy(
            attempts=self.attempts,
            first_pause_ms=int(1000 * self.pause_s),
            pause_ms_max=int(1000 * self.pause_s_max),
            jitter_percent=round(100 * self.jitter),
            elapsed_ms_max=None if elapsed is None else int(1000 * elapsed),
            snoozes=self.snoozes,
        )

    def retries(self, error: BaseException) -> bool:
        """Tell whether another attempt is worth while after an error."""
        kind = TimeoutError if isinstance(error, ForeignCodeHangs) else type(error)
        return issubclass(kind, self.on) and not issubclass(kind, self.never)

    def check(self) -> None:
        """Raise `ValueError` where a limit is not kept."""
        if not 1 <= self.attempts <= ATTEMPTS_MAX:
            raise ValueError(f"attempts is 1 to {ATTEMPTS_MAX}")
        longest_s = PAUSE_MS_MAX / 1000
        for name in ("pause_s", "pause_s_max"):
            if not 0 <= getattr(self, name) <= longest_s:
                raise ValueError(f"{name} is 0 to {longest_s:g}")
        if not 0 <= self.jitter <= 0.3:
            raise ValueError("jitter is 0 to 0.3")
        elapsed_s = self.elapsed_s_max
        if elapsed_s is not None and not 0 <= elapsed_s <= ELAPSED_MS_MAX / 1000:
            raise ValueError(f"elapsed_s_max is 0 to {ELAPSED_MS_MAX / 1000:g}, or None")
        if not 0 <= self.snoozes <= 100 * SNOOZES:
            raise ValueError(f"snoozes is 0 to {100 * SNOOZES}")
        for kind in (*self.on, *self.never):
            if not issubclass(kind, BaseException):
                raise ValueError(f"{kind!r} is no class of errors")  # noqa: TRY004
