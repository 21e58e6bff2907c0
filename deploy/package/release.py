"""Writes a release into a folder: both wheels, what they are made of, what starts them, hashes.

    python deploy/package/release.py [FOLDER]

1. A release is a function of the commit: the clock in the files is the commit's, so that whoever
   builds it again gets the same bytes. Each wheel is built twice; differing bytes end the build.
2. A bill of materials (CycloneDX 1.6) names what a wheel needs, as `uv.lock` has it: versions, what
   needs what, the hashes of the published files, and the licence that an installed package states.
3. An archive has the files of `deploy/` that are no part of the wheels, as the commit has them;
   the manual page is made from the commands.
4. `SHA256SUMS` is what `sha256sum --check` reads.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT: Final = Path(__file__).parents[2]
DEPLOYED: Final = ("deploy", ":!deploy/package", ":!deploy/pictures")
"""What of the repository an operator has, as git names paths."""

PROJECTS: Final = {"rotulus": ROOT, "rotulus-client": ROOT / "workers" / "client"}

_Package = Mapping[str, Any]
_HASHES: Final = HashTypeFactory()
_LICENCES: Final = LicenseFactory()
_UNSTATED: Final = "none is stated"


def main(folder: Path) -> None:
    """Write the release; the folder has no other files afterwards than those named by the sums."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        sys.exit(f"{folder} is not empty; name an empty folder, or remove it first")
    committed_at = _committed_at()
    packages = locked_packages()
    for name, project in PROJECTS.items():
        wheel = build_twice(project, folder, committed_at)
        bill = bill_of_materials(packages, name, wheel, committed_at)
        (folder / f"{wheel.stem}.cdx.json").write_text(bill)
    write_deploy_archive(folder / f"rotulus-deploy-{packages['rotulus']['version']}.tar.gz")
    (folder / "rotulus.1").write_text(_manual_page(committed_at))
    sums = [f"{_sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(sums))
    sys.stdout.write("".join(sums))


def build_wheel(project: Path, folder: Path, committed_at: datetime) -> Path:
    """Build the wheel of a project and return its path."""
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    clock = {"SOURCE_DATE_EPOCH": str(int(committed_at.timestamp()))}
    before = {*folder.iterdir()}
    subprocess.run(command, cwd=project, env=os.environ | clock, check=True, capture_output=True)
    [wheel] = {*folder.glob("*.whl")} - before
    return wheel


def build_twice(project: Path, folder: Path, committed_at: datetime) -> Path:
    """Build the wheel of a project and return its path; end where a second one differs."""
    wheel = build_wheel(project, folder, committed_at)
    with TemporaryDirectory() as beside:
        again = build_wheel(project, Path(beside), committed_at)
        if again.read_bytes() != wheel.read_bytes():
            sys.exit(f"{wheel.name} has other bytes when it is built again")
    return wheel


def bill_of_materials(
    packages: Mapping[str, _Package], name: str, wheel: Path, committed_at: datetime
) -> str:
    """Return what a wheel is made of and needs, as CycloneDX 1.6; the same for the same wheel."""
    digest = f"sha256:{_sha256(wheel)}"
    own = _component(packages[name])
    own.hashes.add(_HASHES.from_composite_str(digest))
    components = {each: _component(packages[each]) for each in requirements_of(packages, name)}
    bom = Bom(components=components.values(), serial_number=uuid5(NAMESPACE_URL, digest))
    bom.metadata.component, bom.metadata.timestamp = own, committed_at
    for each, component in {name: own, **components}.items():
        bom.register_dependency(component, (components[below] for below in _below(packages, each)))
    return JsonV1Dot6(bom).output_as_string(indent=1)


def write_deploy_archive(path: Path) -> None:
    """Write the pages and the files of `deploy/` as an archive, the same for the same commit."""
    command = ("git", "-C", str(ROOT), "-c", "tar.umask=0022", "archive", "--format=tar.gz")
    subprocess.run((*command, f"--output={path}", "HEAD", *DEPLOYED), check=True)


def requirements_of(packages: Mapping[str, _Package], name: str) -> Iterator[str]:
    """Yield the packages that an installation of one brings, each once, in the order of names."""
    seen, waiting = {name}, [name]
    while waiting:
        below = {*_below(packages, waiting.pop())} - seen
        seen |= below
        waiting += sorted(below)
    yield from sorted(seen - {name})


def licence_of(name: str) -> str:
    """Return the licence that an installed package states: an SPDX expression, or in its words."""
    try:
        stated = metadata(name)
    except PackageNotFoundError:
        return _UNSTATED
    trove = [each for each in stated.get_all("Classifier", ()) if each.startswith("License ::")]
    names = [each.rpartition(" :: ")[2] for each in trove]
    [expression], [words] = (
        stated.get_all(field, [""]) for field in ("License-Expression", "License")
    )
    return expression or ", ".join(names) or words.strip().partition("\n")[0] or _UNSTATED


def _component(package: _Package) -> Component:
    name, version = package["name"], package["version"]
    purl = PackageURL("pypi", None, name, version)
    files = [*package.get("wheels", ()), *filter(None, (package.get("sdist"),))]
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=str(purl),
        purl=purl,
        licenses=[_LICENCES.make_from_string(licence_of(name))],
        hashes=[_HASHES.from_composite_str(file["hash"]) for file in files],
    )


def _below(packages: Mapping[str, _Package], name: str) -> Iterator[str]:
    """Yield what a package needs, with what the extras that it names of it need."""
    for need in packages[name].get("dependencies", ()):
        yield need["name"]
        optional = packages[need["name"]].get("optional-dependencies", {})
        yield from (each["name"] for extra in need.get("extra", ()) for each in optional[extra])


def locked_packages() -> dict[str, _Package]:
    """Return what `uv.lock` says of each package, by its name."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    return {package["name"]: package for package in lock["package"]}


def _committed_at() -> datetime:
    command = ("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
    seconds = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return datetime.fromtimestamp(int(seconds), UTC)


def _manual_page(committed_at: datetime) -> str:
    command = (sys.executable, "-m", "workers", "man", "--day", f"{committed_at:%Y-%m-%d}")
    run = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return run.stdout


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist")
    main(parser.parse_args().folder)
