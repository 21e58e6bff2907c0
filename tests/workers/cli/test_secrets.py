"""No part of a secret is in what a command says, whatever is wrong (canaries through each)."""

from pathlib import Path

import pytest

from tests.workers.cli.command import rotulus
from workers.environment.settings import Settings

PARTS = ("q7Vx9", "Zk3mW", "w9RtB", "b5YdN")
SECRET = "".join(PARTS)
NOBODY = "127.0.0.1:1"

SECRETS = {
    "ROTULUS_DATABASE_URL": f"postgresql://me:{SECRET}@{NOBODY}/d",
    "ROTULUS_REDIS_URL": f"redis://me:{SECRET}@{NOBODY}/0",
    "ROTULUS_KEY": SECRET,
    "ROTULUS_WORKER_TOKEN": SECRET,
    "ROTULUS_USER_CONFIRMATION_KEY": SECRET * 2,
    "ROTULUS_ARCHITECT_CONFIRMATION_KEY": SECRET * 2,
    "ROTULUS_MODEL_KEY": SECRET,
    "ROTULUS_WEBHOOK_SECRET": SECRET,
    "ROTULUS_OIDC_CLIENT_SECRET": SECRET,
    "AWS_SECRET_ACCESS_KEY": SECRET,
}
OTHERS = {
    "ROTULUS_MODEL_URL": f"http://{NOBODY}/v1/",
    "ROTULUS_MODEL_NAME": "m",
    "ROTULUS_OIDC_ISSUER": "https://id.example",
    "ROTULUS_OIDC_CLIENT_ID": "rotulus",
    "ROTULUS_OIDC_REDIRECT_URL": "https://page.example/login/provider/answer",
    "ROTULUS_ARCHIVE_URL": "s3://bucket/prefix",
    "AWS_ACCESS_KEY_ID": "an-id",
    "AWS_ENDPOINT_URL": f"http://{NOBODY}",
}
COMMANDS = (
    ("doctor", "--json"),
    ("status",),
    ("verify",),
    ("show", "log"),
    ("archive", "list"),
    ("settings",),
    ("gateway",),
)


def cut(text: str, by: str) -> str:
    return text.replace(SECRET, by.join(PARTS))


BAD_SETTINGS = [
    (name, by)
    for name in ("ROTULUS_DATABASE_URL", "ROTULUS_REDIS_URL")
    for by in ("/", "?", "#", "@", "%", "[", " ")
]
"""Settings with a URL, and what cuts its password without being encoded."""


def said_in(output: str) -> list[str]:
    return [part for part in PARTS if part.lower() in output.lower()]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_that_reaches_nobody_shows_none_of_them(tmp_path: Path, command):
    secrets = {**OTHERS, **SECRETS, "ROTULUS_GATEWAY_URL": f"http://{NOBODY}"}
    if command[0] == "gateway":
        del secrets["ROTULUS_DATABASE_URL"]
        secrets["ROTULUS_CHECKPOINT_KEY"] = str(tmp_path)
        secrets["ROTULUS_WITNESS_POLICY"] = str(tmp_path / "none")
    result = rotulus("--data-dir", str(tmp_path / "data"), *command, **secrets)
    assert said_in(result.output + result.stderr) == []
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("name", "by"), BAD_SETTINGS)
@pytest.mark.parametrize("command", [("doctor",), ("verify",)], ids=" ".join)
def test_a_url_that_is_refused_shows_no_part_of_its_password(tmp_path: Path, name, by, command):
    secrets = {**OTHERS, **SECRETS, name: cut(SECRETS[name], by)}
    result = rotulus("--data-dir", str(tmp_path / "data"), *command, **secrets)
    assert result.exit_code == 1
    assert f"{name}: url_invalid: " in result.stderr
    assert said_in(result.output + result.stderr) == []


def test_every_setting_that_holds_a_secret_has_its_canary():
    secret = {
        f"ROTULUS_{name}".upper()
        for name, field in Settings.model_fields.items()
        if "SecretStr" in str(field.annotation) or name == "redis_url"
    }
    assert secret == {name for name in SECRETS if name.startswith("ROTULUS_")}
