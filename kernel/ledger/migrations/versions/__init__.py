"""The revisions, one file each, numbered without a gap; once released a file never changes.

A revision is self-contained: it imports Alembic and SQLAlchemy and nothing of this program. It
consists of statements alone, for both databases, and never asks the database anything. `rotulus
rollback rebuild` computes afterwards what it cannot say in SQL, because that follows from the log.
"""
