"""Names what can be wrong with a backup, or with the place to which it is restored."""

from typing import ClassVar


class BackupError(Exception):
    """The base of the errors of backups."""

    code: ClassVar[str] = "backup_failed"


class BackupUnavailable(BackupError):
    """The place of the backups does not answer, or cannot be written."""

    code = "backup_unavailable"


class BackupBusy(BackupError):
    """Another process makes a backup of the same ledger; wait for it."""

    code = "backup_busy"


class BackupMissing(BackupError):
    """There is no backup, or none of that name."""

    code = "backup_missing"


class BackupDamaged(BackupError):
    """A file of a backup is missing or is another one; the message names it."""

    code = "backup_damaged"


class BackupInvalid(BackupError):
    """A manifest states what no backup has, such as a path that leads out of its folder."""

    code = "backup_invalid"


class BackupKeyInvalid(BackupError):
    """The key is none, is missing, or is not the one under which the backup was encrypted."""

    code = "backup_key_invalid"


class BackupSchemaDiffers(BackupError):
    """The backup has tables of another version of the program; restore it with that one."""

    code = "backup_schema_differs"


class RestoreTargetInUse(BackupError):
    """Something lies where a backup is to be restored; nothing was written over it."""

    code = "restore_target_in_use"


class RestoreRefused(BackupError):
    """What was restored does not verify, so it was removed again."""

    code = "restore_does_not_verify"
