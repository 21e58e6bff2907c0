"""Programs for web frameworks ask a running tree for the README's job and show what it came to."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import loopback
from tests.ports import free_port
from tests.system.tree_run import running, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "workers" / "client" / "web.md"
PROGRAM = re.compile(r"```python\n(# (\w+)\.py\n.*?)```", re.DOTALL)

DRIVERS = {
    "fastapi_app": """
from fastapi.testclient import TestClient
from fastapi_app import app

entered = TestClient(app).__enter__()


def call(method, path):
    answer = entered.request(method, path)
    return answer.status_code, answer.json()
""",
    "flask_app": """
from flask_app import app


def call(method, path):
    answer = app.test_client().open(path, method=method)
    return answer.status_code, answer.json
""",
    "django_views": """
import django
from django.conf import settings
from django.test import Client

settings.configure(ROOT_URLCONF="django_views", ALLOWED_HOSTS=["*"])
django.setup()


def call(method, path):
    answer = Client().generic(method, path)
    return answer.status_code, answer.json()
""",
}
"""By the program: how its framework is asked without a server."""

ASK = """
import json
import time

asked = call("POST", "/images/i1/thumbnail")
print(asked[0], asked[1].get("code"))
if asked[0] == 202:
    assert call("POST", "/images/i1/thumbnail") == asked
    ended_s = time.monotonic() + 60
    while (status := call("GET", f"/thumbnails/{asked[1]['request_id']}")[1])["state"] == "open":
        assert time.monotonic() < ended_s
        time.sleep(0.05)
    print(json.dumps(status, sort_keys=True))
"""


def programs(page: Path) -> dict[str, str]:
    return {name: text for text, name in PROGRAM.findall(page.read_text())}


def ask(folder: Path, name: str, url: str) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", DRIVERS[name] + ASK]
    environment = {**os.environ, "ROTULUS_GATEWAY_URL": url}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_the_programs_ask_for_a_job_and_show_what_it_came_to(tmp_path: Path):
    for name, text in (programs(ROOT / "README.md") | programs(PAGE)).items():
        (tmp_path / f"{name}.py").write_text(text)
    assert {*programs(PAGE)} == {*DRIVERS}
    with running(tmp_path / "data", "up", "--app", "jobs:app") as run:
        url = run.wait_until_up()["gateway_url"]
        requests = f"{url}/v1/queues/thumbnail/requests?limit=1"
        wait_for("the queue of the job", lambda: loopback.get(requests).is_success, 60, 0.1)
        for name in DRIVERS:
            done = {"state": "completed", "result": {"made": "i1-80.png"}}
            assert ask(tmp_path, name, url) == ["202 None", json.dumps(done, sort_keys=True)], name


@pytest.mark.parametrize("name", DRIVERS)
def test_a_gateway_that_is_away_is_an_answer_of_the_page(tmp_path: Path, name: str):
    text = programs(PAGE)[name].replace("call_s_max=5", "give_up_after_s=0.1")
    (tmp_path / f"{name}.py").write_text(text)
    url = f"http://127.0.0.1:{free_port()}"
    assert ask(tmp_path, name, url) == ["503 gateway_unreachable"]
