import os

import pytest
from pydantic import SecretStr, ValidationError

from workers.client.gateway_address import DEFAULT_URL
from workers.environment.ledger_access import ledger_place, printable_place
from workers.environment.settings import (
    GATEWAY_PORT,
    Settings,
    SettingsError,
    load_settings,
    settings_table,
    unknown_variables,
)

TOKEN = "x" * 24


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith("ROTULUS_"):
            monkeypatch.delenv(name)


def test_a_fresh_machine_needs_no_setting():
    settings = load_settings()
    assert settings.redis_url is None
    assert settings.host == "127.0.0.1"
    assert (settings.batch_max, settings.mailbox_max, settings.worker_slots) == (256, 256, 2)
    assert settings.kernel_idempotency_window_hours == 24
    assert settings.kernel_causal_window_minutes == 1440
    assert (settings.kernel_retention_days, settings.audit_horizon_days) == (90, 2557)
    assert settings.kernel_emergency_throttle_ops_per_sec == 100


def test_the_environment_is_read_and_an_override_wins(monkeypatch):
    monkeypatch.setenv("ROTULUS_BATCH_MAX", "7")
    monkeypatch.setenv("ROTULUS_LEASE_SLOTS", "9")
    settings = load_settings(lease_slots=3)
    assert (settings.batch_max, settings.lease_slots) == (7, 3)


@pytest.mark.parametrize("target", ["127.0.0.1:50051", "localhost:1", "[::1]:65535"])
def test_a_tee_is_an_address_on_this_machine(target):
    assert load_settings(tee_target=target).tee_target == target


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("127.0.0.1", "target_invalid"),
        ("127.0.0.1:0", "target_invalid"),
        (":50051", "target_invalid"),
        ("dns:///tee:50051", "host_not_loopback"),
        ("192.0.2.1:50051", "host_not_loopback"),
        ("unix:/tmp/socket", "target_invalid"),
    ],
)
def test_a_tee_elsewhere_has_to_be_allowed(target, code):
    with pytest.raises(SettingsError) as refused:
        load_settings(tee_target=target)
    assert [(name, stated) for name, stated, _ in refused.value.problems] == [
        ("ROTULUS_TEE_TARGET", code)
    ]
    if code == "host_not_loopback":
        assert load_settings(tee_target=target, allow_remote=True).tee_target == target


def test_models_in_use_are_versions_and_what_took_over_from_them(monkeypatch):
    assert load_settings().current_model_versions == {"rotulus-local-1": "rotulus-local-1"}
    monkeypatch.setenv("ROTULUS_ACTIVE_MODELS", "a-2, a-1 = a-2,b")
    current_model_versions = load_settings().current_model_versions
    assert current_model_versions == {"a-2": "a-2", "a-1": "a-2", "b": "b"}


@pytest.mark.spec("§18.2")
def test_capacity_is_without_limit_unless_an_operator_sets_one(monkeypatch):
    assert load_settings().kernel_capacities == {}
    monkeypatch.setenv("ROTULUS_KERNEL_CAPACITY", "any=1000, create = 50")
    monkeypatch.setenv("ROTULUS_KERNEL_CAPACITY_RESERVES", "critical=0.1,user_initiated=0.2")
    kernel_capacities = load_settings().kernel_capacities
    assert list(kernel_capacities) == ["any", "create"]
    assert [ceiling.cost for ceiling in kernel_capacities["create"].ceilings()] == pytest.approx(
        [35, 45, 50]
    )
    assert [ceiling.slots for ceiling in kernel_capacities["any"].ceilings()] == [float("inf")] * 3


def test_reserves_that_add_up_to_everything_are_no_more_than_everything():
    reserves = "critical=0.1,user_initiated=0.9"
    settings = load_settings(kernel_capacity="any=0.7", kernel_capacity_reserves=reserves)
    assert settings.kernel_capacities["any"].ceiling("background").cost == pytest.approx(0)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("kernel_capacity", "any", "capacity_invalid"),
        ("kernel_capacity", "any=much", "capacity_invalid"),
        ("kernel_capacity", "any=-1", "capacity_invalid"),
        ("kernel_capacity", "any=nan", "capacity_invalid"),
        ("kernel_capacity", "any=1,any=2", "capacity_invalid"),
        ("kernel_capacity", "craete=1", "capacity_invalid"),
        ("kernel_capacity_reserves", "critical=1.1", "capacity_reserves_invalid"),
        ("kernel_capacity_reserves", "background=0.1", "capacity_reserves_invalid"),
        ("kernel_capacity_period_s", "0.5", "greater_than_equal"),
    ],
)
def test_a_capacity_that_is_none_is_refused(name, value, code):
    with pytest.raises(SettingsError) as caught:
        load_settings(**{name: value})
    assert caught.value.problems[0][:2] == (f"ROTULUS_{name.upper()}", code)


def test_settings_do_not_change_after_they_were_read():
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().batch_max = 1


def test_an_empty_variable_counts_as_unset(monkeypatch):
    monkeypatch.setenv("ROTULUS_WORKER_TOKEN", "")
    monkeypatch.setenv("ROTULUS_REDIS_URL", "")
    settings = load_settings()
    assert settings.worker_token is None
    assert settings.redis_url is None


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("ROTULUS_PORT", "65536", "less_than_equal"),
        ("ROTULUS_PORT", "many", "int_parsing"),
        ("ROTULUS_BATCH_MAX", "0", "greater_than_equal"),
        ("ROTULUS_REDIS_URL", "http://x", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "mysql://h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://[h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://me:pa/ss@h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://me:pa?ss@h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://me:pa#ss@h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://me:pa@ss@h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://me:pa%ss@h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://me:pa ss@h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://me:p\u00e4ss@h/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://h:port/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://h,i:99999/d", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://h/d?sslmod=require", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://h/d?sslmode=on", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://h/d?connect_timeout=soon", "url_invalid"),
        ("ROTULUS_DATABASE_URL", "postgresql://h/d?target_session_attrs=writer", "url_invalid"),
        ("ROTULUS_REDIS_URL", "redis://:pa#ss@h/0", "url_invalid"),
        ("ROTULUS_REDIS_URL", "redis://:pa@ss@h/0", "url_invalid"),
        ("ROTULUS_REDIS_URL", "redis://:pa%ss@h/0", "url_invalid"),
        ("ROTULUS_GATEWAY_URL", "http://me:pass@h", "url_invalid"),
        ("ROTULUS_GATEWAY_URL", "http://h:many", "url_invalid"),
        ("ROTULUS_GATEWAY_URL", "http://h:0", "url_invalid"),
        ("ROTULUS_GATEWAY_URL", "http://", "url_invalid"),
        ("ROTULUS_MODEL_URL", "https://key@models.example/v1/", "url_invalid"),
        ("ROTULUS_ARCHIVE_URL", "file:///an archive", "url_invalid"),
        ("ROTULUS_ARCHIVE_URL", "gs://bucket", "url_invalid"),
        ("ROTULUS_ARCHIVE_URL", "s3://", "url_invalid"),
        ("ROTULUS_ARCHIVE_URL", "s3://key:secret@bucket/x", "archive_url_invalid"),
        ("ROTULUS_ARCHIVE_URL", "s3://bucket/x?region=y", "archive_url_invalid"),
        ("ROTULUS_ARCHIVE_URL", "s3:///x", "archive_url_invalid"),
        ("ROTULUS_GATEWAY_URL", "gateway:80", "url_invalid"),
        ("ROTULUS_OTHER_GATEWAY_URLS", "b", "url_invalid"),
        ("ROTULUS_OTHER_GATEWAY_URLS", "http://b:2,", "url_invalid"),
        ("ROTULUS_OTHER_GATEWAY_URLS", "ftp://b", "url_invalid"),
        ("ROTULUS_OTHER_GATEWAY_URLS", "http://b:2,x", "url_invalid"),
        ("ROTULUS_WORKER_QUEUES", "nowhere", "queue_unknown"),
        ("ROTULUS_WORKER_QUEUES", "authority-recompute,", "queue_unknown"),
        ("ROTULUS_WORKER_QUEUES", ",", "queue_unknown"),
        ("ROTULUS_WORKER_QUEUES", "a b", "queue_unknown"),
        ("ROTULUS_ACTIVE_MODELS", "a,", "model_versions_invalid"),
        ("ROTULUS_ACTIVE_MODELS", "=a", "model_versions_invalid"),
        ("ROTULUS_ACTIVE_MODELS", "a=", "model_versions_invalid"),
        ("ROTULUS_ACTIVE_MODELS", " ", "model_versions_invalid"),
        ("ROTULUS_LOG_LEVEL", "loud", "literal_error"),
        ("ROTULUS_WORKER_TOKEN", "x" * 15, "too_short"),
        ("ROTULUS_WEBHOOK_SECRET", "x" * 15, "too_short"),
        ("ROTULUS_USER_CONFIRMATION_KEY", "x" * 31, "too_short"),
        ("ROTULUS_ARCHITECT_CONFIRMATION_KEY", "x" * 31, "too_short"),
        ("ROTULUS_PASSIVATE_AFTER_S", "nan", "less_than_equal"),
        ("ROTULUS_MODEL_URL", "models.example", "url_invalid"),
        ("ROTULUS_MODEL_TIMEOUT_S", "0", "greater_than"),
    ],
)
def test_a_bad_value_is_named_by_variable_and_code(monkeypatch, name, value, code):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert [(problem[0], problem[1]) for problem in caught.value.problems] == [(name, code)]
    assert f"{name}: {code}: " in str(caught.value)
    assert caught.value.code == "settings_invalid"


def test_a_model_elsewhere_needs_a_name(monkeypatch):
    monkeypatch.setenv("ROTULUS_MODEL_URL", "https://models.example/v1/")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert [problem[:2] for problem in caught.value.problems] == [
        ("ROTULUS_MODEL_NAME", "model_name_missing")
    ]
    assert load_settings(model_name="model-1").model_key is None


def test_a_user_and_an_architect_have_keys_of_their_own(monkeypatch):
    for name in ("USER", "ARCHITECT"):
        monkeypatch.setenv(f"ROTULUS_{name}_CONFIRMATION_KEY", "k" * 32)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert [problem[:2] for problem in caught.value.problems] == [
        ("ROTULUS_ARCHITECT_CONFIRMATION_KEY", "confirmation_keys_equal")
    ]
    assert "k" * 32 not in str(caught.value)


def test_the_key_of_a_model_is_not_shown(monkeypatch):
    monkeypatch.setenv("ROTULUS_MODEL_KEY", "hunter2")
    settings = load_settings()
    assert "hunter2" not in f"{settings!r} {settings}"


def test_a_message_about_a_bad_secret_does_not_show_it(monkeypatch):
    monkeypatch.setenv("ROTULUS_WORKER_TOKEN", "hunter2")
    monkeypatch.setenv("ROTULUS_REDIS_URL", "amqp://me:hunter2@host")
    monkeypatch.setenv("ROTULUS_DATABASE_URL", "postgres+x://me:hunter2@host")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert len(caught.value.problems) == 3
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(ValidationError) as plain:
        Settings()
    assert "hunter2" not in str(plain.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ROTULUS_DATABASE_URL", "postgresql://me:pa%2Fs%40s@h,i:5433/d?sslmode=require"),
        ("ROTULUS_DATABASE_URL", "postgres:///d?host=/var/run/postgresql"),
        ("ROTULUS_DATABASE_URL", "postgresql://[::1]:5433/d?options=-c%20search_path%3Dx"),
        ("ROTULUS_REDIS_URL", "redis://me:pa%2Fss@h:6380/3"),
        ("ROTULUS_REDIS_URL", "unix:///tmp/redis.sock"),
        ("ROTULUS_GATEWAY_URL", "http://[::1]:8440"),
        ("ROTULUS_GATEWAY_URL", "https://rotulus.example/below"),
        ("ROTULUS_ARCHIVE_URL", "file:///an%20archive"),
    ],
)
def test_a_url_that_is_written_as_it_has_to_be_is_taken(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    load_settings()


PARTS = ("q7Vx", "Zk3m", "w9Rt", "b5Yd")


@pytest.mark.parametrize("cut", list("/?#@:%[]&= \u00e4"))
@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("ROTULUS_DATABASE_URL", "postgresql://me:{}@127.0.0.1:1/d"),
        ("ROTULUS_REDIS_URL", "redis://me:{}@127.0.0.1:1/0"),
        ("ROTULUS_GATEWAY_URL", "http://me:{}@127.0.0.1:1"),
        ("ROTULUS_MODEL_URL", "http://me:{}@127.0.0.1:1/v1"),
        ("ROTULUS_ARCHIVE_URL", "s3://me:{}@bucket/x"),
    ],
)
def test_no_part_of_a_password_is_in_a_refusal_or_in_what_is_shown(monkeypatch, name, url, cut):
    monkeypatch.setenv(name, url.format(cut.join(PARTS)))
    monkeypatch.setenv("ROTULUS_MODEL_NAME", "m")
    try:
        settings = load_settings()
    except SettingsError as error:
        said = f"{error!r} {error} {error.problems} {error.__context__}"
    else:
        said = f"{settings!r} {printable_place(ledger_place(settings))}"
    assert not [part for part in PARTS if part.lower() in said.lower()]


def test_secrets_do_not_show_in_the_text_of_the_settings():
    settings = load_settings(
        worker_token=SecretStr(TOKEN),
        redis_url="redis://:hunter2@localhost",
        database_url="postgresql://me:hunter2@localhost/roll",
    )
    assert TOKEN not in repr(settings)
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_host_needs_no_permission(host):
    assert load_settings(host=host).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "127.0.0.1.x"])  # noqa: S104 - refused here
def test_a_host_that_others_can_reach_needs_permission(host):
    with pytest.raises(SettingsError, match="ROTULUS_HOST: host_not_loopback: "):
        load_settings(host=host)
    with pytest.raises(SettingsError, match="ROTULUS_ALLOWED_HOSTS: allowed_hosts_missing: "):
        load_settings(host=host, allow_remote=True)
    allowed = load_settings(host=host, allow_remote=True, allowed_hosts="rotulus.example")
    assert (allowed.host, allowed.host_names) == (host, {"rotulus.example"})


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("Rotulus.example, 192.0.2.1", {"rotulus.example", "192.0.2.1"}),
        ("2001:DB8::0:1,[::2]", {"2001:db8::1", "::2"}),
    ],
)
def test_names_of_a_gateway_are_names_and_addresses(value, names):
    assert load_settings(allowed_hosts=value).host_names == names
    assert load_settings().host_names == frozenset()


@pytest.mark.parametrize("value", ["*", "a:80", "[::1]:80", "a,,b", "http://a", "a b", "é", "."])
def test_a_name_that_is_none_is_refused(value):
    if value == ".":
        value = ",".join(f"h{number}" for number in range(65))
    with pytest.raises(SettingsError, match="ROTULUS_ALLOWED_HOSTS: allowed_hosts_invalid: "):
        load_settings(allowed_hosts=value)


def test_permission_can_not_be_lost_by_a_later_change():
    remote = load_settings(host="10.0.0.1", allow_remote=True, allowed_hosts="10.0.0.1")
    with pytest.raises(SettingsError, match="host_not_loopback"):
        remote.with_changes(allow_remote=False)
    assert remote.with_changes(port=1).host == "10.0.0.1"


def test_a_gateway_has_the_port_at_which_clients_look_unless_another_is_asked_for(monkeypatch):
    assert load_settings().port == GATEWAY_PORT
    assert str(load_settings().gateway_url) == DEFAULT_URL
    monkeypatch.setenv("ROTULUS_PORT", "0")
    assert load_settings().port == 0


def test_the_table_has_every_setting_with_its_meaning():
    table = settings_table()
    assert len(table) == len(Settings.model_fields)
    assert all(name.startswith("ROTULUS_") and name.isupper() for name, _, _ in table)
    assert all(meaning.endswith(".") for _, _, meaning in table)
    defaults = {name: default for name, default, _ in table}
    assert defaults["ROTULUS_DATA_DIR"] == "./rotulus-data"
    assert defaults["ROTULUS_REDIS_URL"] == "unset"
    assert defaults["ROTULUS_PASSIVATE_AFTER_S"] == "60"
    assert defaults["ROTULUS_KERNEL_IDEMPOTENCY_WINDOW_HOURS"] == "24"


def test_a_worker_drains_every_queue_unless_it_is_told_which(monkeypatch):
    assert load_settings().queue_names == (), "all that it knows"
    monkeypatch.setenv("ROTULUS_WORKER_QUEUES", "extraction-transition,extraction-transition")
    assert load_settings().queue_names == ("extraction-transition",)


def test_a_worker_knows_its_gateways_in_their_order(monkeypatch):
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", "http://a:1")
    monkeypatch.setenv("ROTULUS_OTHER_GATEWAY_URLS", "http://b:2,https://c")
    assert load_settings().gateway_urls == ("http://a:1", "http://b:2", "https://c")
    monkeypatch.delenv("ROTULUS_OTHER_GATEWAY_URLS")
    assert load_settings().gateway_urls == ("http://a:1",)


def test_a_value_may_be_in_a_file_that_is_named_as_its_variable(monkeypatch, tmp_path):
    (tmp_path / "ROTULUS_WORKER_TOKEN").write_text(f"{TOKEN}\n")
    (tmp_path / "ROTULUS_BATCH_MAX").write_text("7")
    (tmp_path / "ROTULUS_PORT").write_text("\n")
    (tmp_path / "another").mkdir()
    monkeypatch.setenv("ROTULUS_SECRETS_DIR", str(tmp_path))
    settings = load_settings(lease_slots=3)
    assert settings.worker_token == SecretStr(TOKEN)
    assert (settings.batch_max, settings.port, settings.lease_slots) == (7, GATEWAY_PORT, 3)
    assert settings.with_changes(port=1).worker_token == SecretStr(TOKEN)


def test_the_environment_and_options_win_over_files(monkeypatch, tmp_path):
    (tmp_path / "ROTULUS_BATCH_MAX").write_text("7")
    (tmp_path / "ROTULUS_LEASE_SLOTS").write_text("7")
    monkeypatch.setenv("ROTULUS_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("ROTULUS_BATCH_MAX", "8")
    settings = load_settings(lease_slots=9)
    assert (settings.batch_max, settings.lease_slots) == (8, 9)


def test_a_file_that_is_named_like_a_setting_but_is_none_is_named(monkeypatch, tmp_path):
    (tmp_path / "ROTULUS_WORKER_TOKN").write_text(TOKEN)
    monkeypatch.setenv("ROTULUS_SECRETS_DIR", str(tmp_path))
    assert unknown_variables() == [("ROTULUS_WORKER_TOKN", "ROTULUS_WORKER_TOKEN")]


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\xff" * 20, "no text"), (b"x" * ((64 << 10) + 1), "longer than 65536 bytes")],
)
def test_a_file_that_holds_no_value_is_named_and_not_shown(monkeypatch, tmp_path, content, words):
    (tmp_path / "ROTULUS_WORKER_TOKEN").write_bytes(content)
    monkeypatch.setenv("ROTULUS_SECRETS_DIR", str(tmp_path))
    with pytest.raises(SettingsError, match=words) as raised:
        load_settings()
    [(variable, code, text)] = raised.value.problems
    assert (variable, code) == ("ROTULUS_SECRETS_DIR", "secret_unreadable")
    assert "ROTULUS_WORKER_TOKEN" in text
    assert "xxxx" not in text


def test_a_folder_of_secrets_that_is_not_there_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("ROTULUS_SECRETS_DIR", str(tmp_path / "none"))
    with pytest.raises(SettingsError, match="secret_unreadable"):
        load_settings()
    assert unknown_variables() == []
