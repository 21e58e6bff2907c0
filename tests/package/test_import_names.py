"""The names that users import lead to the classes with which Rotulus itself works."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import rotulus
import rotulus.pipelines
import rotulus.plugins
import rotulus_client
import workers.client
import workers.pipelines
import workers.plugins


@pytest.mark.parametrize("name", rotulus.__all__)
def test_jobs_are_made_with_the_classes_of_the_plug_ins(name: str):
    assert getattr(rotulus, name) is getattr(workers.plugins, name)


def test_rotulus_offers_what_jobs_need_and_no_name_besides():
    assert {*workers.plugins.__all__} == {*rotulus.__all__}
    with pytest.raises(AttributeError, match="'rotulus' has no attribute 'Nobody'"):
        rotulus.Nobody  # noqa: B018


@pytest.mark.parametrize("name", workers.pipelines.__all__)
def test_pipelines_are_made_with_the_classes_of_the_pipelines(name: str):
    assert getattr(rotulus.pipelines, name) is getattr(workers.pipelines, name)


def test_each_module_of_the_client_has_two_names_and_is_there_once():
    assert rotulus_client is workers.client
    for module in pkgutil.iter_modules(workers.client.__path__):
        if not module.ispkg:
            ours, theirs = (
                importlib.import_module(f"{package}.{module.name}")
                for package in ("workers.client", "rotulus_client")
            )
            assert theirs is ours


def test_what_is_imported_first_makes_no_difference():
    program = (
        "from rotulus_client.errors import GatewayError as caught;"
        "from workers.client import GatewayError as raised; assert caught is raised"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_command_starts_without_what_jobs_need(tmp_path: Path):
    program = "import rotulus.__main__, sys; print('pydantic' in sys.modules)"
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, cwd=tmp_path, text=True) == "False\n"
