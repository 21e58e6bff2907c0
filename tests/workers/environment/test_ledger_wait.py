"""A ledger that does not answer yet is waited for; what stays wrong is told."""

import anyio
import pytest

from kernel.values.errors import CommitOutcomeUnknown, LedgerSchemaDiffers, LedgerUnavailable
from workers.environment.ledger_wait import WAIT_S, open_patiently

pytestmark = pytest.mark.anyio


def opening(*answers):
    """A way to open a ledger that answers one thing after another, the last of them for good."""
    left = list(answers)

    def open_ledger():
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return open_ledger


async def test_it_is_opened_as_soon_as_it_answers():
    away, unknown = LedgerUnavailable("away"), CommitOutcomeUnknown("who knows")
    with anyio.fail_after(5):
        assert await open_patiently(opening(away, unknown, away, "ledger")) == "ledger"


@pytest.mark.parametrize("wait_s", [0, 0.25])
async def test_the_last_refusal_is_told_when_the_time_is_over(wait_s):
    began_s = anyio.current_time()
    with anyio.fail_after(5), pytest.raises(LedgerUnavailable, match="away"):
        await open_patiently(opening(LedgerUnavailable("away")), wait_s)
    assert anyio.current_time() - began_s >= wait_s


async def test_what_stays_wrong_is_told_at_once():
    with anyio.fail_after(WAIT_S / 2), pytest.raises(LedgerSchemaDiffers):
        await open_patiently(opening(LedgerSchemaDiffers("older")))
