"""Declares every setting, and is the only place that reads the environment.

Rules:
- A process loads its settings once, at its start, and hands the frozen object on.
- Every name starts with ``ROTULUS_``; a variable that is set but empty counts as unset.
- What is not in the environment is looked for among the files of ``ROTULUS_SECRETS_DIR``.
- A message about a bad value names the variable and a code, and never shows the value.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from actors.sharding import SHARDS_DEFAULT, SHARDS_MAX
from kernel.rollback.confirmation import KEY_BYTES_MIN
from kernel.values.pressure import DEFAULT_THROTTLE_OPS_PER_SEC, Capacity
from kernel.values.priorities import PRIORITIES_OF
from kernel.work.retry_policy import RetryPolicy
from queues.redis.keys import KEY_PREFIX, KEY_PREFIX_PATTERN, URL_SCHEMES
from workers.environment.capacity_spec import capacities_of, check_capacities, check_reserves
from workers.environment.entry_points import ELIMINATION_STORES, MODELS, QUEUES, plugins_of
from workers.environment.host_names import listed_names
from workers.environment.principal_limits import DEFAULT_LIMITS, check_limits
from workers.environment.retry_spec import check_retries, policies_of
from workers.environment.secret_files import SecretUnreadable, names_in, values_in
from workers.environment.urls import (
    UrlProblem,
    http_problem,
    misspelling,
    postgres_problem,
    redis_problem,
)

ENV_PREFIX = "ROTULUS_"
GATEWAY_PORT = 8440
DEMO_KEY = "demo-log.key"
"""The file in a data folder with the key that `rotulus demo` makes."""

DATABASE_CONNECTIONS = 8
RETENTION_DAYS = 90
"""The days after which rows of the log are archived (§17.7)."""

AUDIT_HORIZON_DAYS = 2557
"""Seven years: the longest class of an audit's receipts that ends, `host_audit_7y` (§17.7)."""

WORKER_TOKEN_CHARS_MIN = 16
WEBHOOK_SECRET_CHARS_MIN = 16
_S3_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[^?#\s]*)?")


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _url_of(*schemes: str, problem_of: UrlProblem = misspelling) -> AfterValidator:
    def check(value: str | SecretStr) -> str | SecretStr:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        try:
            parts = urlsplit(text)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in schemes or not (parts.netloc or parts.path):
            names = ", ".join(f"{scheme}://" for scheme in schemes)
            raise PydanticCustomError("url_invalid", "must be a URL that starts with " + names)
        if (problem := problem_of(text)) is not None:
            raise PydanticCustomError("url_invalid", "{problem}", {"problem": problem})
        return value

    return AfterValidator(check)


def _check_archive(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "s3" and not _S3_URL.fullmatch(url):
        raise PydanticCustomError(
            "archive_url_invalid",
            "must be s3://bucket or s3://bucket/prefix; credentials, region and endpoint are those "
            "of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL",
        )
    return url


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_loopback(host: str, info: ValidationInfo) -> None:
    if not _is_loopback(host) and not info.data.get("allow_remote", False):
        raise PydanticCustomError(
            "host_not_loopback",
            "other machines could reach this address; set ROTULUS_ALLOW_REMOTE=1 to allow it",
        )


RedisUrl = Annotated[str, _url_of(*URL_SCHEMES, problem_of=redis_problem)]
KeyPrefix = Annotated[str, Field(pattern=KEY_PREFIX_PATTERN)]
DatabaseUrl = Annotated[SecretStr, _url_of("postgresql", "postgres", problem_of=postgres_problem)]
HttpUrl = Annotated[str, _url_of("http", "https", problem_of=http_problem)]
ArchiveUrl = Annotated[str, _url_of("file", "s3"), AfterValidator(_check_archive)]
GatewayId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\w.:/-]+$")]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_lower)
]
LogFormat = Annotated[Literal["auto", "json", "console"], BeforeValidator(_lower)]


def _versions(value: str) -> str:
    for entry in value.split(","):
        if not all(part.strip() for part in entry.split("=", 1)):
            raise PydanticCustomError(
                "model_versions_invalid", "must be versions separated by commas, or old=new"
            )
    return value


Capacities = Annotated[str, Field(max_length=4096), AfterValidator(check_capacities)]
Limits = Annotated[str, Field(max_length=1024), AfterValidator(check_limits)]
Retries = Annotated[str, Field(max_length=4096), AfterValidator(check_retries)]
Reserves = Annotated[str, Field(max_length=4096), AfterValidator(check_reserves)]


def _host_list(value: str) -> str:
    try:
        listed_names(value)
    except ValueError:
        raise PydanticCustomError(
            "allowed_hosts_invalid",
            "must be names or addresses separated by commas, without ports and wildcards",
        ) from None
    return value


HostList = Annotated[str, Field(max_length=8192), AfterValidator(_host_list)]


def _networks(value: str) -> str:
    try:
        for entry in value.split(","):
            ipaddress.ip_network(entry.strip())
    except ValueError:
        raise PydanticCustomError(
            "trusted_proxies_invalid",
            "must be addresses or networks separated by commas, such as 10.0.0.0/8",
        ) from None
    return value


ProxyList = Annotated[str, Field(max_length=8192), AfterValidator(_networks)]


def _queue_names(value: str) -> str:
    unknown = set(value.split(",")) - PRIORITIES_OF.keys()
    if unknown and unknown - plugins_of(QUEUES).keys():
        raise PydanticCustomError("queue_unknown", "must be names of queues separated by commas")
    return value


def _check_store_of_plugin(name: str) -> None:
    """Refuse a name under which no installed plug-in offers a store; imports nothing."""
    known = plugins_of(ELIMINATION_STORES)
    if name not in known:
        raise PydanticCustomError(
            "elimination_store_unknown",
            "no installed plug-in offers an elimination store of this name (offered: {offered}); "
            "install one, or unset ROTULUS_ELIMINATION_STORE",
            {"offered": ", ".join(sorted(known)) or "none"},
        )


def _check_model_of_plugin(name: str) -> None:
    """Refuse a name under which no installed plug-in offers a model; imports nothing."""
    known = plugins_of(MODELS)
    if name not in known:
        offered = ", ".join(sorted(known)) or "none"
        raise PydanticCustomError(
            "model_unknown",
            "no installed plug-in offers a model of this name (offered: {offered}); install one, "
            "set ROTULUS_MODEL_URL to ask a server for it, or unset ROTULUS_MODEL_NAME",
            {"offered": offered},
        )


def _urls(value: str) -> str:
    try:
        for url in value.split(","):
            _URL.validate_python(url)
    except ValidationError:
        raise PydanticCustomError("url_invalid", "must be URLs separated by commas") from None
    return value


_URL = TypeAdapter(HttpUrl)
UrlList = Annotated[str, Field(max_length=8192), AfterValidator(_urls)]
QueueNames = Annotated[str, AfterValidator(_queue_names)]
ActiveVersions = Annotated[str, Field(max_length=4096), AfterValidator(_versions)]

S = TypeVar("S", bound="Settings")


class SettingsError(Exception):
    """Says which variables hold values that cannot be used."""

    code: ClassVar[str] = "settings_invalid"

    def __init__(self, problems: list[tuple[str, str, str]]) -> None:
        self.problems = problems
        """(variable, code, what is wrong), one for each bad value."""
        super().__init__("; ".join(f"{name}: {code}: {text}" for name, code, text in problems))


class Settings(BaseSettings):
    """What an operator may change; load it with `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
    )

    data_dir: Path = Field(
        default=Path("rotulus-data"),
        description="Folder of the ledger, the embedded Redis, the lock and what effects write; "
        "created when missing.",
    )
    secrets_dir: Path | None = Field(
        default=None,
        description="Folder whose files hold values of settings, each file named as the variable "
        "that it stands for, such as ROTULUS_WORKER_TOKEN; a variable that is set wins over its "
        "file.",
    )
    redis_url: RedisUrl | None = Field(
        default=None,
        repr=False,
        description="Redis to use: redis://, rediss:// or unix:// of a server, "
        "redis+sentinel://HOST:PORT,…/MASTER of sentinels, redis+cluster://HOST:PORT,… of a "
        "cluster; unset: the embedded server.",
    )
    redis_prefix: KeyPrefix = Field(
        default=KEY_PREFIX,
        description="Begin of every key in that Redis, of one ledger alone; the same for all "
        "processes of the ledger.",
    )
    database_url: DatabaseUrl | None = Field(
        default=None,
        description="PostgreSQL database of the ledger (postgresql://user:password@host/name; of "
        "several hosts, host1:port1,host2:port2, the primary is used); unset: an SQLite file in "
        "the data folder.",
    )
    database_connections: int = Field(
        default=DATABASE_CONNECTIONS,
        ge=2,
        le=1000,
        description="Connections that a gateway or a worker has to that database at most; who "
        "reads while all are in use waits.",
    )
    archive_url: ArchiveUrl | None = Field(
        default=None,
        repr=False,
        description="Folder (file:///path) or bucket (s3://bucket/prefix) of what has left the "
        "database; unset: the folder `archive` beside an SQLite file, and none for a database.",
    )
    # Declared before host, whose check reads it.
    allow_remote: bool = Field(
        default=False, description="Allows a host that other machines can reach."
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address that the gateway and `rotulus tee` bind; loopback unless "
        "ROTULUS_ALLOW_REMOTE is set.",
    )
    allowed_hosts: HostList | None = Field(
        default=None,
        description="Names and addresses, separated by commas, to which the gateway and the "
        "metrics of workers answer besides the loopback's; needed with a host that other machines "
        "can reach, because any page can let a name of its own point there.",
    )
    access: Literal["open", "keys"] | None = Field(
        default=None,
        description="Who may ask the gateway: open lets everybody in who reaches the port, and is "
        "refused with a host that other machines can reach; keys takes one (`rotulus keys`). "
        "Unset: open on loopback, else keys.",
    )
    principal_limits: Limits | None = Field(
        default=None,
        description="What each principal may use of a gateway at most, where access takes keys: "
        "LIMIT=NUMBER, separated by commas; beyond it is answered 429 (`principal_limited`). "
        f"Unset, and what is not named: {DEFAULT_LIMITS}.",
    )
    oidc_issuer: HttpUrl | None = Field(
        default=None,
        repr=False,
        description="OpenID provider by which people log in at a gateway that takes keys, as it "
        "names itself: https://, or http:// on this machine; unset: by keys alone.",
    )
    oidc_client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="What that provider knows the gateway by.",
    )
    oidc_client_secret: SecretStr | None = Field(
        default=None,
        min_length=1,
        description="Secret of that client; unset: it has none, and proves itself by PKCE alone.",
    )
    oidc_redirect_url: HttpUrl | None = Field(
        default=None,
        repr=False,
        description="URL of the gateway's /login/provider/answer as browsers reach it, which the "
        "provider has to know.",
    )
    oidc_scopes: str = Field(
        default="openid",
        max_length=512,
        pattern=r"^openid( [!-~]+)*$",
        description="What a login asks the provider for, such as `openid groups`.",
    )
    oidc_name_claim: str = Field(
        default="sub",
        min_length=1,
        max_length=128,
        description="Claim that names a person, who is `person:` and its value: one that people "
        "cannot choose for themselves; an `email` has to be verified.",
    )
    oidc_groups_claim: str = Field(
        default="groups",
        min_length=1,
        max_length=128,
        description="Claim with the groups of a person; one that was granted roles (as `group:` "
        "and its name) gives them to whoever logs in.",
    )
    key: SecretStr | None = Field(
        default=None,
        description="Key that commands and clients show a gateway (`rotulus keys create`).",
    )
    key_file: Path | None = Field(
        default=None, description="File with that key, where ROTULUS_KEY is unset."
    )
    tls_cert_file: Path | None = Field(
        default=None,
        description="File of the certificate (PEM, its chain behind it) by which the gateway, the "
        "metrics of workers, `rotulus tee` and `rotulus witness` speak TLS, 1.2 or later; read "
        "again when it changes; unset: they are spoken to in the clear.",
    )
    tls_key_file: Path | None = Field(
        default=None,
        description="File of that certificate's key (PEM, not encrypted), which not every user "
        "may read.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="File of certificates (PEM) of authorities that commands, clients and workers "
        "trust besides the machine's, when they ask gateways.",
    )
    trusted_proxies: ProxyList | None = Field(
        default=None,
        description="Addresses and networks of proxies, separated by commas, whose "
        "`X-Forwarded-For` says who asks, as the record has it; unset: nobody's.",
    )
    path_prefix: str = Field(
        default="",
        max_length=200,
        pattern=r"^(?:/[A-Za-z0-9._~-]+)*$",
        description="Path under which a reverse proxy serves the gateway, such as /rotulus, where "
        "the proxy leaves it on; one that takes it off needs no setting.",
    )
    port: int = Field(
        default=GATEWAY_PORT,
        ge=0,
        le=65_535,
        description="Port that the gateway binds, where its clients look for it; 0: any free port, "
        "which `rotulus demo` takes when this is unset.",
    )
    gateway_url: HttpUrl = Field(
        default=f"http://127.0.0.1:{GATEWAY_PORT}",
        repr=False,
        description="Gateway that workers and ingest talk to.",
    )
    other_gateway_urls: UrlList | None = Field(
        default=None,
        repr=False,
        description="Further gateways of the fleet, separated by commas, which a worker asks where "
        "the one before does not answer within five seconds.",
    )
    tee_target: str | None = Field(
        default=None,
        max_length=512,
        description="Tee (host:port) for sessions declared with the elimination store `tee`; "
        "loopback unless ROTULUS_ALLOW_REMOTE is set.",
    )
    tee_ca_file: Path | None = Field(
        default=None,
        description="File of certificates (PEM) by which that Tee is known; unset: it is spoken to "
        "in the clear.",
    )
    app: str | None = Field(
        default=None,
        max_length=512,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="Jobs of one's own: the `App` at MODULE:NAME, which is looked for in the "
        "current folder as well; workers alone need it.",
    )
    retries: Retries | None = Field(
        default=None,
        description="How often queues try what failed: QUEUE=ATTEMPTS/PAUSE_S/LONGEST_PAUSE_S, "
        "separated by commas; a queue that is named goes by this whatever its code says, and `*` "
        "stands for those that state nothing.",
    )
    elimination_store: str | None = Field(
        default=None,
        max_length=128,
        description="Elimination store of an installed plug-in (its name among the entry points of "
        "`rotulus.elimination_stores`) for sessions declared with the elimination store `plugin`; "
        "instead of a Tee.",
    )
    worker_token: SecretStr | None = Field(
        default=None,
        min_length=WORKER_TOKEN_CHARS_MIN,
        description="Proves that a worker may send intents; "
        f"at least {WORKER_TOKEN_CHARS_MIN} characters; `rotulus up` makes one for each run.",
    )
    webhook_secret: SecretStr | None = Field(
        default=None,
        min_length=WEBHOOK_SECRET_CHARS_MIN,
        description="Signs what comes in at `/v1/sources`, as Standard Webhooks or GitHub do; "
        f"at least {WEBHOOK_SECRET_CHARS_MIN} characters; unset: nothing there needs a signature.",
    )
    user_confirmation_key: SecretStr | None = Field(
        default=None,
        min_length=KEY_BYTES_MIN,
        description="Signs a user's word for undoing what persists outside; "
        f"at least {KEY_BYTES_MIN} characters; unset: nobody can give it.",
    )
    architect_confirmation_key: SecretStr | None = Field(
        default=None,
        min_length=KEY_BYTES_MIN,
        description="Signs an architect's word for building the state again; "
        f"at least {KEY_BYTES_MIN} characters; unset: nobody can give it.",
    )
    worker_slots: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Batches that one worker process drains at once, "
        "and one more of critical work.",
    )
    worker_queues: QueueNames | None = Field(
        default=None,
        description="Queues that a worker drains, separated by commas; "
        "unset: all, those of its plug-ins included.",
    )
    worker_metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Port of a worker's `/metrics`, on the address of ROTULUS_HOST; 0: any free "
        "port, which the log and `rotulus up` tell; unset: none. "
        "Of the workers of one tree each takes the next one.",
    )
    binding_slots: int = Field(
        default=2,
        ge=1,
        le=1024,
        description="Bindings that the whole fleet evaluates at once, and one more that is "
        "critical; beyond that background ones are suspended.",
    )
    batch_max: int = Field(default=256, ge=1, le=4096, description="Most units in one commit.")
    mailbox_max: int = Field(
        default=256, ge=1, le=65_536, description="Most messages that wait for one actor."
    )
    requests_max: int = Field(
        default=1024,
        ge=1,
        le=65_536,
        description="Most requests of producers that a gateway has in flight; more are answered "
        "503 (`gateway_full`) unread. Workers and the dashboard have places of their own, and who "
        "waits for outcomes takes none.",
    )
    active_sessions_mib: int = Field(
        default=1024,
        ge=1,
        le=1 << 20,
        description="MiB that the active sessions of a gateway may hold, about; beyond that those "
        "leave memory that are idle longest, and others are answered 503 (`runtime_full`).",
    )
    passivate_after_s: float = Field(
        default=60.0,
        gt=0,
        le=86_400,
        description="Seconds without a message after which an actor leaves memory.",
    )
    foreign_call_s_max: float = Field(
        default=600.0,
        gt=0,
        le=86_400,
        description="Seconds after which a function of a pipeline or a plug-in has failed that did "
        "not return and has no limit of its own; its thread is left behind.",
    )
    loop_blocked_s_max: float = Field(
        default=60.0,
        ge=5,
        le=3600,
        description="Seconds for which the event loop of a gateway, a worker or a pipeline may "
        "stand still, because code of a plug-in keeps it; then the process says where and ends, "
        "to be started again.",
    )
    lease_slots: int = Field(
        default=4,
        ge=1,
        le=1024,
        description="Batches of each queue that the whole fleet drains at once, "
        "and one more of critical work.",
    )
    shards: int = Field(
        default=SHARDS_DEFAULT,
        ge=1,
        le=SHARDS_MAX,
        description="Shards of the sessions, which gateways share out among themselves; "
        "a ledger keeps the number that it was founded with.",
    )
    shard_lease_s: float = Field(
        default=10.0,
        ge=0.5,
        le=300,
        description="Seconds without a sign of life after which others take a gateway's shards.",
    )
    gateway_id: GatewayId | None = Field(
        default=None,
        description="Name of a gateway among those on its ledger, the same when it is started "
        "again; unset: its machine and port, for `rotulus up` its machine and data folder.",
    )
    advertised_url: HttpUrl | None = Field(
        default=None,
        repr=False,
        description="URL at which clients may ask this gateway directly for the sessions that it "
        "owns, such as https://gateway-1.example:8440; its name belongs in ROTULUS_ALLOWED_HOSTS; "
        "unset: nobody is told of one.",
    )
    log_level: LogLevel = Field(
        default="warning", description="Least level that is logged: debug, info, warning, error."
    )
    log_format: LogFormat = Field(
        default="auto", description="json, console, or auto: console on a terminal, else json."
    )
    traces_url: HttpUrl | None = Field(
        default=None,
        repr=False,
        description="Collector that is sent traces over OTLP (HTTP), such as "
        "http://127.0.0.1:4318; unset: nothing is traced.",
    )
    traces_sample: float = Field(
        default=1.0, ge=0, le=1, description="Share of the traces that are sent, from 0 to 1."
    )
    kernel_idempotency_window_hours: int = Field(
        default=24,
        ge=1,
        le=8760,
        description="Hours for which a repeated idempotency key answers the first receipt.",
    )
    kernel_retention_days: int = Field(
        default=RETENTION_DAYS,
        ge=0,
        le=36_500,
        description="Days after which the fleet moves rows of the log to the archive, where there "
        "is one, every hour, whole tiles of 256 and never the newest 1,024; 0: never, only "
        "`rotulus archive run --older-than` does.",
    )
    audit_horizon_days: int = Field(
        default=AUDIT_HORIZON_DAYS,
        ge=0,
        le=36_500,
        description="Days after which archived operations no longer keep the answers of models "
        "that they name, which go seven days later if their model is retired; 0: never.",
    )
    kernel_emergency_throttle_ops_per_sec: int = Field(
        default=DEFAULT_THROTTLE_OPS_PER_SEC,
        ge=0,
        le=1_000_000,
        description="Operations committed within a second above which the runtime puts its "
        "background work off for a second, and never what a user writes, where the policy in force "
        "states no threshold of its own; 0: none is put off.",
    )
    kernel_capacity: Capacities | None = Field(
        default=None,
        description="Cost that operations may use up in a period, by operation kind, or any for "
        "all that are not named: any=1000,create=50. Unset, or not named: without limit.",
    )
    kernel_capacity_reserves: Reserves | None = Field(
        default=None,
        description="Parts of each capacity that only a priority and those above it may use: "
        "critical=0.1,user_initiated=0.2. Unset: none.",
    )
    kernel_capacity_period_s: float = Field(
        default=10.0,
        ge=1,
        le=3600,
        description="Seconds for which what an operation has used counts.",
    )
    active_models: ActiveVersions = Field(
        default="rotulus-local-1",
        description="Model versions in use, separated by commas; old=new where new has taken "
        "over from old. What is not named counts as retired in a replay.",
    )
    kernel_causal_window_minutes: int = Field(
        default=1440,
        ge=1,
        le=525_600,
        description="Minutes back in which causal parents are looked for.",
    )
    kernel_dev_mode: bool = Field(
        default=False,
        description="Lets a simulation whose policy says so go on after a violation.",
    )

    seal_key: Path | None = Field(
        default=None,
        description="File of `rotulus thought key` with the keys that sign the seals of sessions "
        "and rounds; unset: seals are not signed.",
    )
    checkpoint_key: Path | None = Field(
        default=None,
        description="File of `rotulus checkpoint key`, outside the data folder and its backups; "
        "the gateway signs and publishes the log with it; unset: the key that `rotulus demo` made "
        "in the data folder, and without one it publishes nothing.",
    )
    checkpoint_folder: Path | None = Field(
        default=None,
        description="Folder to which the log is published (checkpoint and tiles), for any static "
        "server; the gateway serves it too; unset: the folder `published` in the data folder.",
    )
    checkpoint_s: int = Field(
        default=60,
        ge=1,
        le=86_400,
        description="Seconds after which what came onto the log is published.",
    )
    checkpoint_rows: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000,
        description="Rows after which it is published earlier, at most once a second; unset: by "
        "time alone.",
    )
    receipts_seal_s: int = Field(
        default=5,
        ge=1,
        le=3600,
        description="Seconds after which receipts that no row of the log seals (outcomes of "
        "plug-ins' jobs, refusals, what was recorded of runs) are sealed by an operation of their "
        "own.",
    )
    verified_head: Path | None = Field(
        default=None,
        description="File that keeps the tree head that was verified last, where who writes the "
        "ledger cannot; `rotulus verify` goes on from there, and --full verifies everything; "
        "unset: so does every verification.",
    )
    backup_key: Path | None = Field(
        default=None,
        description="File of 64 hexadecimal digits (`openssl rand -hex 32`) under which `rotulus "
        "backup` encrypts, and without which `rotulus restore` reads nothing of that; unset: "
        "backups are not encrypted.",
    )
    witness_policy: Path | None = Field(
        default=None,
        description="File of C2SP tlog-policy: its witnesses that have a URL are asked to cosign "
        "each checkpoint, and its quorum says when it counts as witnessed; unset: nobody is "
        "asked.",
    )
    landscape_run_rows: int = Field(
        default=1000,
        ge=0,
        le=5_000,
        description="Rows of the log after which the runtime's own run ends and its digest is "
        "stated on the log, as it is when a gateway stops or starts; 0: never.",
    )
    round_sessions: int = Field(
        default=256,
        ge=1,
        le=256,
        description="Sessions of thoughts after whose finalization a round is sealed.",
    )
    round_s: int | None = Field(
        default=None,
        ge=1,
        le=31_536_000,
        description="Seconds after which the open round is sealed if a session was finalized in "
        "it; unset: by command and by number alone.",
    )

    thought_rounds_kept: int = Field(
        default=3,
        ge=0,
        le=1_000_000_000,
        description="Rounds that were sealed last whose thoughts keep their contents in the "
        "database; contents of older ones move to the archive, every hour, where there is one.",
    )
    thought_rounds_warm: int = Field(
        default=3,
        ge=0,
        le=1_000_000_000,
        description="Rounds that were sealed last whose thoughts keep their records and trees in "
        "the database; of older ones, once their contents have moved, roots and an index stay.",
    )

    model_url: HttpUrl | None = Field(
        default=None,
        repr=False,
        description="Base of an OpenAI-compatible interface, such as http://127.0.0.1:11434/v1/.",
    )
    model_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        description="Model to ask there, or without ROTULUS_MODEL_URL the name of a plug-in's "
        "model; unset: the deterministic model of this process, and workers have none to extract "
        "with.",
    )
    model_key: SecretStr | None = Field(
        default=None, min_length=1, description="Key of that interface, sent as a bearer token."
    )
    model_timeout_s: float = Field(
        default=120.0, gt=0, le=3600, description="Seconds that a model may take for one answer."
    )

    @field_validator("data_dir")
    @classmethod
    def _home_is_expanded(cls, value: Path) -> Path:
        return value.expanduser()

    @field_validator("host")
    @classmethod
    def _remote_is_asked_for(cls, value: str, info: ValidationInfo) -> str:
        _check_loopback(value, info)
        return value

    @field_validator("architect_confirmation_key")
    @classmethod
    def _roles_have_keys_of_their_own(
        cls, value: SecretStr | None, info: ValidationInfo
    ) -> SecretStr | None:
        if value is not None and value == info.data.get("user_confirmation_key"):
            raise PydanticCustomError(
                "confirmation_keys_equal", "an architect's key is another than a user's"
            )
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _remote_has_names(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and not _is_loopback(info.data.get("host", "localhost")):
            raise PydanticCustomError(
                "allowed_hosts_missing",
                "a host that other machines can reach needs the names by which they call it",
            )
        return value

    @field_validator("access")
    @classmethod
    def _remote_takes_keys(cls, value: str | None, info: ValidationInfo) -> str | None:
        is_remote = not _is_loopback(info.data.get("host", "localhost"))
        if value == "open" and is_remote:
            raise PydanticCustomError(
                "access_open_remote",
                "other machines could do everything here; set ROTULUS_ACCESS=keys",
            )
        return value

    @field_validator("oidc_redirect_url")
    @classmethod
    def _provider_is_whole(cls, value: str | None, info: ValidationInfo) -> str | None:
        issuer, client_id = info.data.get("oidc_issuer"), info.data.get("oidc_client_id")
        if issuer is None:
            return value
        if client_id is None or value is None:
            raise PydanticCustomError(
                "oidc_half_stated",
                "a provider needs ROTULUS_OIDC_CLIENT_ID and ROTULUS_OIDC_REDIRECT_URL",
            )
        for url in (issuer, value):
            parts = urlsplit(url)
            if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
                raise PydanticCustomError(
                    "oidc_in_the_clear", "whoever is on the way could log in; name it by https://"
                )
        return value

    @field_validator("tls_key_file")
    @classmethod
    def _key_has_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if (value is None) != (info.data.get("tls_cert_file") is None):
            raise PydanticCustomError(
                "tls_half_stated", "a certificate and its key are named together, or neither"
            )
        return value

    @field_validator("tee_target")
    @classmethod
    def _tee_is_an_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        host, _, port = value.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
            raise PydanticCustomError("target_invalid", "must be host:port")
        _check_loopback(host.strip("[]"), info)
        return value

    @field_validator("elimination_store")
    @classmethod
    def _store_is_offered(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            _check_store_of_plugin(value)
            if info.data.get("tee_target") is not None:
                raise PydanticCustomError(
                    "elimination_stores_two",
                    "a gateway has one elimination store beside the ledger: unset "
                    "ROTULUS_ELIMINATION_STORE or ROTULUS_TEE_TARGET",
                )
        return value

    @field_validator("model_name")
    @classmethod
    def _model_is_named(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("model_url") is not None:
            raise PydanticCustomError(
                "model_name_missing", "ROTULUS_MODEL_URL needs the name of a model"
            )
        if value is not None and info.data.get("model_url", value) is None:
            _check_model_of_plugin(value)
        return value

    @property
    def published_folder(self) -> Path:
        """The folder to which the log is published."""
        return self.checkpoint_folder or self.data_dir / "published"

    @property
    def takes_keys(self) -> bool:
        """Whether whoever asks the gateway has to show a key."""
        return self.access == "keys" or (self.access is None and not _is_loopback(self.host))

    @property
    def host_names(self) -> frozenset[str]:
        """The names that are answered to besides the loopback's."""
        return frozenset() if self.allowed_hosts is None else listed_names(self.allowed_hosts)

    @property
    def retry_policies(self) -> Mapping[str, RetryPolicy]:
        """Return the policies that are stated, by queue and by `*`."""
        return policies_of(self.retries)

    @property
    def kernel_capacities(self) -> dict[str, Capacity]:
        """The capacity of each operation kind that has one, and of `any`."""
        return capacities_of(self.kernel_capacity, self.kernel_capacity_reserves)

    @property
    def current_model_versions(self) -> dict[str, str]:
        """The version in use, by each version that may stand on the record."""
        entries = (entry.partition("=") for entry in self.active_models.split(","))
        return {old.strip(): (new or old).strip() for old, _, new in entries}

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The queues that a worker drains, each once; none stated means all that it knows."""
        stated = self.worker_queues.split(",") if self.worker_queues else ()
        return tuple(dict.fromkeys(stated))

    @property
    def gateway_urls(self) -> tuple[str, ...]:
        """The gateways that a worker knows, the first to ask first."""
        other_urls = self.other_gateway_urls.split(",") if self.other_gateway_urls else ()
        return (str(self.gateway_url), *other_urls)

    def with_changes(self, **changes: Any) -> Self:
        """Returns checked settings in which the given fields are changed.

        Raises:
            SettingsError: a value cannot be used.
        """
        stated = {name: getattr(self, name) for name in self.model_fields_set}
        return _check_settings(type(self), {**stated, **changes})


def load_settings(**overrides: Any) -> Settings:
    """Reads the environment; an override, such as a command's option, wins over it.

    Where no key of the log is named, that which `rotulus demo` made in the data folder is taken:
    the log that is published there is signed with it.

    Raises:
        SettingsError: a value cannot be used.
    """
    settings = _check_settings(Settings, {**_values_of_files(overrides), **overrides})
    made = settings.data_dir / DEMO_KEY
    if settings.checkpoint_key is None:
        with suppress(OSError):  # what cannot be looked at is somebody else's
            if made.is_file():
                return settings.with_changes(checkpoint_key=made)
    return settings


def unknown_variables() -> list[tuple[str, str | None]]:
    """Returns each variable, or file of a value, that is named like a setting but is none.

    The second is the setting with the nearest name.
    """
    known = Settings.model_fields
    names = {name for name in os.environ if name.startswith(ENV_PREFIX)}
    if (folder := _secrets_folder({})) is not None:
        with suppress(SecretUnreadable):  # loading the settings says so
            names |= {*names_in(folder, ENV_PREFIX)}
    fields = {name: name.removeprefix(ENV_PREFIX).lower() for name in sorted(names)}
    return [
        (name, next(map(variable_of, get_close_matches(field, known, 1)), None))
        for name, field in fields.items()
        if field not in known
    ]


def settings_table() -> list[tuple[str, str, str]]:
    """Returns (variable, default, meaning) of every setting, in the order of declaration."""
    return [
        (variable_of(name), _default_text(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def _secrets_folder(overrides: Mapping[str, Any]) -> Path | None:
    """Return the folder with files of values, before there are settings that say so."""
    variable = variable_of("secrets_dir")
    named = overrides.get("secrets_dir") or os.environ.get(variable)
    return None if not named else Path(named)


def _values_of_files(overrides: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields whose values are in files and not in the environment."""
    folder = _secrets_folder(overrides)
    if folder is None:
        return {}
    stated = {name.upper() for name, value in os.environ.items() if value}
    fields = {variable_of(name): name for name in Settings.model_fields}
    del fields[variable_of("secrets_dir")]
    variables = fields.keys() - stated
    try:
        values = values_in(folder, variables, ENV_PREFIX)
    except SecretUnreadable as error:
        problem = (variable_of("secrets_dir"), error.code, str(error))
        raise SettingsError([problem]) from None
    return {fields[name]: value for name, value in values.items()}


def _check_settings(kind: type[S], values: dict[str, Any]) -> S:
    try:
        return kind(**values)
    except ValidationError as error:
        problems = [
            (variable_of(str(problem["loc"][0])), problem["type"], problem["msg"])
            for problem in error.errors(
                include_url=False, include_context=False, include_input=False
            )
        ]
    # Outside the handler: the validation error keeps the values, this one must not lead to them.
    raise SettingsError(problems)


def variable_of(field: str) -> str:
    """Return the variable that sets a field."""
    return f"{ENV_PREFIX}{field}".upper()


def _default_text(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return f"./{value}" if isinstance(value, Path) else str(value)
