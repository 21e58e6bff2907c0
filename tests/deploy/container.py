"""Builds the image of `deploy/container` on a machine without a container engine, and runs it.

The base is Debian's own, made by `mmdebstrap`, because no registry is needed for it; wheels are
fetched by the Python of the base, because what they need depends on it. The image is built without
a network and run by runc on a read-only root.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy" / "container"
PROGRAMS: Final = ("buildah", "mmdebstrap", "runc", "umoci", "unshare")
USER: Final = 10_001
VOLUME: Final = "/var/lib/rotulus"
GRACE_S: Final = 30.0
"""As Kubernetes gives by default."""

_BASE: Final = "localhost/base"
_IMAGE: Final = "localhost/rotulus"
_DEBIAN: Final = ("python3", "python3-venv", "ca-certificates")
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")


def run(*command: object, **environment: str) -> str:
    """Run a program to its end and return what it printed; it fails where the program does."""
    done = subprocess.run(
        [str(word) for word in command],
        env=os.environ | environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


class Workshop:
    """A folder in which an image is made and unpacked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        storage = folder / "storage.conf"
        storage.write_text(
            f'[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n'
        )
        self._environment = {"CONTAINERS_STORAGE_CONF": str(storage), "STORAGE_DRIVER": "vfs"}

    def bundle(self, release: Path) -> Path:
        """Build the image from the files of a release, and return its unpacked bundle."""
        base = self._base()
        context = self._context(base, release)
        options = ("--isolation", "chroot", "--format", "docker", "--pull-never")
        build = ("--build-arg", f"BASE={_BASE}", "-t", _IMAGE, context)
        self._buildah("build", *options, *build, before=("unshare", "--net"))
        self._buildah("push", "-q", _IMAGE, f"oci:{self._folder}/oci:rotulus")
        bundle = self._folder / "bundle"
        run("umoci", "unpack", "--image", f"{self._folder}/oci:rotulus", bundle)
        return bundle

    def configuration(self) -> dict[str, Any]:
        """Return what the image says of how it is run."""
        description = json.loads(self._buildah("inspect", "--type", "image", _IMAGE))
        configuration: dict[str, Any] = description["Docker"]["config"]
        return configuration

    def _base(self) -> Path:
        packed, base = self._folder / "base.tar", self._folder / "base"
        packages = f"--include={','.join(_DEBIAN)}"
        run("mmdebstrap", "--mode=root", "--variant=minbase", packages, "bookworm", packed)
        self._buildah("from", "--name", "base", "scratch")
        self._buildah("add", "-q", "base", packed, "/")
        self._buildah("commit", "-q", "base", _BASE)
        base.mkdir()
        run("tar", "-C", base, "-xf", packed)
        return base

    def _context(self, base: Path, release: Path) -> Path:
        context = self._folder / "context"
        shutil.copytree(FOLDER, context)
        for name in (Path("/etc/resolv.conf"), _CERTIFICATES):
            shutil.copy(name, base / name.relative_to("/"))
        shutil.copy(FOLDER / "requirements.txt", base / "srv")
        run("chroot", base, "/usr/bin/python3", "-m", "venv", "/srv/venv")
        fetch = ("-m", "pip", "download", "-q", "--require-hashes", "--only-binary", ":all:")
        where = ("--dest", "/srv/wheels", "-r", "/srv/requirements.txt")
        clean = ("/usr/bin/env", "-i", f"PIP_CERT={_CERTIFICATES}")
        run("chroot", base, *clean, "/srv/venv/bin/python", *fetch, *where)
        shutil.copytree(base / "srv" / "wheels", context / "wheels", dirs_exist_ok=True)
        for path in (*release.glob("*.whl"), *release.glob("*.cdx.json")):
            shutil.copy(path, context / "wheels")
        return context

    def _buildah(self, *words: object, before: Sequence[str] = ()) -> str:
        return run(*before, "buildah", *words, **self._environment)


class Container:
    """A container that runs."""

    def __init__(self, name: str, states: Path, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._runc = ("runc", "--root", states)
        self._name = name

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as whoever looks at it does."""
        words = [*map(str, self._runc), "exec", self._name, *command]
        return subprocess.run(words, check=False, capture_output=True, text=True)

    def stop(self) -> int:
        """Stop it as an engine does, and return with what it ended."""
        run(*self._runc, "kill", self._name, "TERM")
        return self.process.wait(GRACE_S)


@contextmanager
def running(
    bundle: Path, volume: Path, command: Sequence[str], output: Path
) -> Iterator[Container]:
    """Run a command of the image as its PID 1, on a read-only root, with a volume for its data."""
    path = bundle / "config.json"
    configuration = json.loads(path.read_text())
    configuration["root"]["readonly"] = True
    configuration["process"] |= {"terminal": False, "args": list(command)}
    mounts = [each for each in configuration["mounts"] if each["destination"] != VOLUME]
    temporary = {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}  # noqa: S108 - its own
    bound = {"destination": VOLUME, "source": str(volume), "options": ["rbind", "rw"]}
    configuration["mounts"] = [*mounts, temporary, {**bound, "type": "bind"}]
    path.write_text(json.dumps(configuration))
    name, states = f"rotulus-{os.getpid()}", bundle.parent / "states"
    words = ["runc", "--root", str(states), "run", "--bundle", str(bundle), name]
    with output.open("w") as file:
        process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, text=True)
    try:
        yield Container(name, states, process)
    finally:
        if process.poll() is None:
            subprocess.run(
                ["runc", "--root", str(states), "kill", name, "KILL"],  # noqa: S607
                check=False,
            )
            process.wait()
