"""Makes the environment of a child process: what it needs, and nothing else.

Least privilege is a table: settings by the kind of process, the machine's variables by name, those
of libpq and of the exporter if a setting brings them in. A worker computes and reports; it has none
of the keys that sign confirmations, and the model's because it extracts (decision workers/0123). A
variable of a library that is not in the
table does not reach the processes of a tree; `rotulus gateway` and `rotulus worker` by themselves
have the environment in which they are started.
"""

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal

from pydantic import SecretStr

from workers.environment.listening import LISTENING_FD
from workers.environment.settings import Settings, variable_of

Kind = Literal["gateway", "worker"]

# Not a setting: a parent writes it for its children, see `take_parent_pid`.
_PARENT_PID = "ROTULUS_PARENT_PID"
_WAITS = "ROTULUS_WAITS"

_EVERY: Final = (
    "data_dir redis_url redis_prefix database_url database_connections archive_url"
    " allow_remote allowed_hosts host tls_cert_file tls_key_file ca_file"
    " binding_slots lease_slots log_level log_format traces_url traces_sample worker_token"
    " model_url model_name model_key model_timeout_s loop_blocked_s_max"
)
_GATEWAY: Final = (
    "oidc_issuer oidc_client_id oidc_client_secret oidc_redirect_url oidc_scopes oidc_name_claim"
    " oidc_groups_claim"
    " port access principal_limits trusted_proxies tee_target tee_ca_file elimination_store"
    " webhook_secret user_confirmation_key"
    " architect_confirmation_key batch_max mailbox_max requests_max active_sessions_mib"
    " passivate_after_s shards shard_lease_s gateway_id advertised_url path_prefix"
    " active_models kernel_idempotency_window_hours kernel_capacity kernel_capacity_reserves"
    " kernel_capacity_period_s kernel_causal_window_minutes kernel_dev_mode"
    " kernel_emergency_throttle_ops_per_sec"
    " kernel_retention_days audit_horizon_days thought_rounds_kept thought_rounds_warm"
    " seal_key round_s round_sessions landscape_run_rows"
    " checkpoint_key checkpoint_folder checkpoint_s checkpoint_rows witness_policy"
    " receipts_seal_s"
)
_WORKER: Final = (
    "app gateway_url other_gateway_urls worker_slots worker_queues worker_metrics_port"
    " foreign_call_s_max retries"
)


def _names(*texts: str) -> frozenset[str]:
    return frozenset(name for text in texts for name in text.split())


SETTINGS_OF: Mapping[Kind, frozenset[str]] = MappingProxyType(
    {"gateway": _names(_EVERY, _GATEWAY), "worker": _names(_EVERY, _WORKER)}
)
"""The settings that a process of each kind is given; each setting is needed by one at least, but
for those that only commands read (`backup_key`, `verified_head`, `key`, `key_file`), and
`secrets_dir`, whose values are given."""

MACHINE: Final = _names(
    "PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR TERM NO_COLOR FORCE_COLOR VIRTUAL_ENV"
    " LD_LIBRARY_PATH DYLD_LIBRARY_PATH SSL_CERT_FILE SSL_CERT_DIR PYTHONPATH PYTHONHOME"
    " PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONWARNINGS PYTHONFAULTHANDLER"
    " PYTHONMALLOC PYTHONUTF8 PYTHONIOENCODING"
)
"""Variables of the parent that every child gets."""

_ALWAYS: Final = ("LC_", "MALLOC_")
_WITH: Final = (
    ("traces_url", "", "OTEL_"),
    ("database_url", "", "PG"),
    ("archive_url", "s3:", "AWS_"),
)
"""Variables of the libraries that a setting brings in, by how it begins: the exporter of traces,
libpq, and the store of an archive."""


def child_environment(
    kind: Kind,
    settings: Settings,
    listening: socket.socket | None = None,
    *,
    waits: bool = False,
) -> dict[str, str]:
    """Return the whole environment of a child that shall load the same of what it needs.

    It holds secrets in the clear, so it is for starting processes, never for showing. The parent
    has to let the child inherit `listening`. One that `waits` begins with a byte on its standard
    input.
    """
    prefixes = (*_ALWAYS, *_of_libraries(settings))
    env = {
        name: value
        for name, value in os.environ.items()
        if name in MACHINE or name.startswith(prefixes)
    }
    for name in sorted(settings.model_fields_set & SETTINGS_OF[kind]):
        value = getattr(settings, name)
        if value is not None:
            plain = value.get_secret_value() if isinstance(value, SecretStr) else value
            env[variable_of(name)] = str(plain)
    if listening is not None:
        env[LISTENING_FD] = str(listening.fileno())
    env[_PARENT_PID] = str(os.getpid())
    if waits:
        env[_WAITS] = "1"
    return env


def wait_to_begin() -> None:
    """Return at once, or where the parent wants so when it lets this process begin.

    Where the parent is gone the process ends.
    """
    if os.environ.pop(_WAITS, "") and not sys.stdin.buffer.read(1):
        sys.exit(0)


def _of_libraries(settings: Settings) -> Iterator[str]:
    for name, begin, prefix in _WITH:
        value = getattr(settings, name)
        if value is not None and (not begin or str(value).startswith(begin)):
            yield prefix


def take_parent_pid() -> int | None:
    """Return the pid of the process that started this one by `child_environment`, once.

    It is removed from the environment, because it would be wrong for a process started from here.
    """
    text = os.environ.pop(_PARENT_PID, "")
    return int(text) if text.isdecimal() else None
