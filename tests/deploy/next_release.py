"""Makes a tree of the release that could follow: another version, protocol and table."""

import re
import shutil
from pathlib import Path

from kernel.ledger.schema import SCHEMA_VERSION
from kernel.values.fleet_protocol import PROTOCOL
from tests.package.installation import ROOT

VERSION = "0.2.0"
LATER = SCHEMA_VERSION + 1
PACKAGES = ("actors", "deploy", "kernel", "queues", "workers")

_SCHEMA = f"""
SCHEMA_VERSION = {LATER}
TABLES_FROM = {LATER}
PROGRAMS_FROM = {SCHEMA_VERSION}
Table("labels", metadata, Column("label", String, primary_key=True))
Index("nodes_by_update", metadata.tables["nodes"].c.updated_at)
"""
_REVISION = f'''"""Labels."""

import sqlalchemy as sa
from alembic import op

revision = "{LATER:04}"
programs_from = "{SCHEMA_VERSION:04}"
down_revision = "{SCHEMA_VERSION:04}"

TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade():
    op.create_table(
        "labels", sa.Column("label", TEXT, nullable=False), sa.PrimaryKeyConstraint("label")
    )
    op.create_index("nodes_by_update", "nodes", ["updated_at"])


def downgrade():
    raise NotImplementedError("the ledger's schema goes forward only")
'''


def write_next_release(folder: Path) -> Path:
    """Copy what wheels are built from into a folder, changed to the next release."""
    leave_out = shutil.ignore_patterns("__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=leave_out)
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, folder)
    shutil.copy(ROOT / "LICENSE", folder)
    for project in (folder, folder / "workers" / "client"):
        _rewrite(project / "pyproject.toml", r'(?m)^version = ".*"$', f'version = "{VERSION}"')
    protocol = folder / "kernel" / "values" / "fleet_protocol.py"
    _rewrite(protocol, r"(?m)^PROTOCOL: Final = \d+$", f"PROTOCOL: Final = {PROTOCOL + 1}")
    with (folder / "kernel" / "ledger" / "schema.py").open("a") as file:
        file.write(_SCHEMA)
    revision = f"v{LATER:04}_labels.py"
    (folder / "kernel" / "ledger" / "migrations" / "versions" / revision).write_text(_REVISION)
    return folder


def _rewrite(path: Path, pattern: str, text: str) -> None:
    changed, times = re.subn(pattern, text, path.read_text())
    assert times == 1, f"{path}: {times} times"
    path.write_text(changed)
