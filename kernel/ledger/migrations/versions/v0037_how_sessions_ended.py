"""How belief sessions ended, from the entries of their trails that say so.

Nothing follows the entry that ends a session but the one that names its successor.
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"

INTEGER = sa.Integer().with_variant(sa.BigInteger(), "postgresql")
TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    """Go this step."""
    op.add_column("belief_sessions", sa.Column("terminated", INTEGER, nullable=True))
    op.add_column("belief_sessions", sa.Column("successor_id", TEXT, nullable=True))
    is_sqlite = op.get_context().dialect.name == "sqlite"

    def stated(*names: str) -> str:
        if is_sqlite:
            return f"json_extract(CAST(event_bytes AS TEXT), '$.{'.'.join(names)}')"
        return f"CAST(convert_from(event_bytes, 'UTF8') AS json) #>> '{{{','.join(names)}}}'"

    approved = f"{stated('payload', 'approved')} = {'1' if is_sqlite else 'CAST(true AS TEXT)'}"
    trail = "FROM belief_events WHERE belief_events.session_id = belief_sessions.session_id"
    successor = (
        f"SELECT {stated('payload', 'successor_id')} {trail}"
        f" AND event_index = n_events - 1 AND {stated('verb')} = 'SUCCEED_SESSION'"
    )
    ended = (
        f"SELECT 1 {trail} AND event_index >= n_events - 2"
        f" AND {stated('verb')} = 'REQUEST_TERMINATION' AND {approved}"
    )
    op.execute(
        f"UPDATE belief_sessions SET successor_id = ({successor}),"  # noqa: S608 - our names
        f" terminated = CASE WHEN EXISTS ({ended}) THEN 1 ELSE 0 END"
    )


def downgrade() -> None:
    """Refuse."""
    raise NotImplementedError("the ledger's schema goes forward only")
