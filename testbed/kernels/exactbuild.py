"""Builds the exact kernel: source from apt, our patch and configuration, into the cache. Resumable, one at a time.

Each step leaves either nothing or its whole result, so a build that was killed goes on where it was. Writes into the
cache folder alone, except for the apt packages that it installs when it is root and they are missing.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.kernels import exactkernel
from testbed.kernels.exactkernel import ExactKernel
from topologies.errors import InputError, RingroadError

TOOLS = {
    "gcc": "gcc",
    "make": "make",
    "patch": "patch",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz": "xz-utils",
    "dpkg-deb": "dpkg",
}
"""Programs that a build calls, and the apt package of each."""

NEEDED_BYTES = 2_500_000_000
NOT_UNPACKED = (
    "*/Documentation/*/*",
    "*/arch/*/boot/dts/*",
    "*/arch/a*/*.[chS]",
    "*/arch/[b-tv-wy-z]*/*.[chS]",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/drivers/staging/*.[ch]",
    "*/drivers/infiniband/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/testing/*",
)
"""Four fifths of the source, which this architecture and configuration never compile."""

REPRODUCIBLE = {
    "KBUILD_BUILD_USER": "ringroad",
    "KBUILD_BUILD_HOST": "ringroad",
    "KBUILD_BUILD_TIMESTAMP": "2026-01-01",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}
"""So that the same source, patch, configuration and compiler give the same program to the byte."""

SAY_EVERY_S = 15.0
Say = Callable[[str], None]


def build(say: Say, *, jobs: int, source_version: str | None = None) -> ExactKernel:
    """Build, or go on building; returns the finished kernel. RingroadError says what is missing or where it failed.

    `source_version` is one of the source package's versions that apt knows; None is the newest.
    """
    _have_tools(say)
    version = _chosen_source(say, source_version)
    folder = exactkernel.entry_folder(version)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder, say):
        if (folder / exactkernel.NOTE).exists() and (found := exactkernel.find()) is not None:
            return found
        return _Build(folder, version, jobs, say).run()


class _Build:
    """One entry of the cache: `log` has everything that the tools said."""

    def __init__(self, folder: Path, version: str, jobs: int, say: Say) -> None:
        self._folder, self._version, self._jobs, self._say = folder, version, jobs, say
        self._source = folder / "source"
        self._log = folder / "build.log"

    def run(self) -> ExactKernel:
        began_at = time.monotonic()
        if not self._source.exists():
            self._have_room()
            self._unpack()
        self._configure()
        self._compile()
        kernel = self._keep()
        self._say(f"built in {time.monotonic() - began_at:.0f} s: {kernel.path}")
        return kernel

    def _have_room(self) -> None:
        free = shutil.disk_usage(self._folder).free
        if free < NEEDED_BYTES:
            raise RingroadError(
                f"only {free / 1e9:.1f} GB free in {self._folder}; building needs {NEEDED_BYTES / 1e9:.1f} GB",
                "free some space there",
            )

    def _unpack(self) -> None:
        draft = self._folder / "unpacking"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        tarball = self._tarball()
        self._say("unpacking and patching the source")
        left_out = [f"--exclude={pattern}" for pattern in NOT_UNPACKED]
        self._do(["tar", "-xJf", str(tarball), "--strip-components=1", *left_out, "-C", str(draft)], "unpacking")
        with exactkernel.PATCH.open("rb") as patch:
            self._do(
                ["patch", "-p1", "--no-backup-if-mismatch", "-d", str(draft)],
                f"applying the patch to {self._version}",
                "this source differs too much from what the patch was made for: build another version of it "
                "(apt-cache madison lists them) with --source-version",
                stdin=patch,
            )
        draft.rename(self._source)
        shutil.rmtree(self._folder / "deb", ignore_errors=True)

    def _tarball(self) -> Path:
        """The source as Debian ships it: what is installed, or what apt downloads and checks, into the cache."""
        name = f"usr/src/{exactkernel.SOURCE_PACKAGE}.tar.xz"
        if _installed(exactkernel.SOURCE_PACKAGE) == self._version and (Path("/") / name).exists():
            return Path("/") / name
        here = self._folder / "deb"
        whole = here / name
        if whole.exists():
            return whole
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        self._say(f"downloading {exactkernel.SOURCE_PACKAGE} {self._version}")
        wanted = f"{exactkernel.SOURCE_PACKAGE}={self._version}"
        command = ["apt-get", "-o", "APT::Sandbox::User=root", "download", wanted]
        self._do(command, f"downloading {wanted}", "make 'apt-get update' work, then run this again", cwd=here)
        (package,) = here.glob("*.deb")
        self._do(["dpkg-deb", "--extract", str(package), str(here / "tree")], "extracting the package")
        package.unlink()
        (here / "tree" / "usr").rename(here / "usr")
        return whole

    def _configure(self) -> None:
        """Writes `.config` only where it changes something: make takes a new one for a reason to compile all again."""
        stamp = self._source / ".ringroad-configured"
        if stamp.exists():
            return
        self._say("configuring")
        self._make("configuring", "defconfig")
        wanted = _options(exactkernel.CONFIG.read_text())
        with (self._source / ".config").open("a") as config:
            config.writelines(f"{line}\n" for line in wanted.values())
        self._make("configuring", "olddefconfig")
        got = _options((self._source / ".config").read_text())
        lost = [line for name, line in wanted.items() if got.get(name, f"# {name} is not set") != line]
        if lost:
            raise RingroadError(
                f"the source of {self._version} does not take these options: {'; '.join(lost)}",
                f"mend {exactkernel.CONFIG}, or build another version of the source",
            )
        stamp.touch()

    def _compile(self) -> None:
        self._say(f"compiling with {self._jobs} jobs; the log is {self._log}")
        self._make("compiling", "linux", each=_Count(self._say))

    def _keep(self) -> ExactKernel:
        release = self._make("asking for the release", "-s", "kernelrelease").strip().splitlines()[-1]
        binary = self._folder / exactkernel.BINARY
        self._do(["strip", "--strip-debug", "-o", f"{binary}.new", str(self._source / "linux")], "stripping")
        Path(f"{binary}.new").replace(binary)
        kernel = ExactKernel(binary, release, self._version, exactkernel.recipe())
        kernel.save()
        shutil.rmtree(self._source)
        return kernel

    def _make(self, what: str, *targets: str, each: Callable[[str], None] | None = None) -> str:
        """Run make for the user-mode architecture; gives `each` its lines as they come, and all of them at the end."""
        environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "ARCH")}
        command = ["make", "ARCH=um", f"-j{self._jobs}", *targets]
        return self._do(command, what, cwd=self._source, env=environment | REPRODUCIBLE, each=each)

    def _do(
        self,
        command: list[str],
        what: str,
        remedy: str = "run it again: it goes on from there",
        *,
        each: Callable[[str], None] | None = None,
        **options: object,
    ) -> str:
        """Run a program, its output into the log; RingroadError with its last lines if it fails."""
        said = []
        options = {"stdin": subprocess.DEVNULL} | options
        with self._log.open("a") as log:
            log.write(f"$ {' '.join(command)}\n")
            log.flush()
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options
            )
            try:
                for line in process.stdout:
                    log.write(line)
                    said.append(line)
                    if each is not None:
                        each(line)
                status = process.wait()
            except BaseException:
                process.terminate()
                process.wait()
                raise
        if status != 0:
            tail = "".join(said[-8:]).rstrip()
            raise RingroadError(f"{what} failed with status {status} (all of it: {self._log})\n{tail}", remedy)
        return "".join(said)


class _Count:
    """Says now and then how many files are compiled."""

    def __init__(self, say: Say) -> None:
        self._say, self._began_at, self._said_at, self._files = say, time.monotonic(), time.monotonic(), 0

    def __call__(self, line: str) -> None:
        self._files += bool(re.match(r"\s+(CC|AS|HOSTCC|USER)\s", line))
        now = time.monotonic()
        if now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            self._say(f"{self._files} files compiled in {now - self._began_at:.0f} s")


def _options(text: str) -> dict[str, str]:
    """By name, the line that sets each option of a kernel configuration, or leaves it out."""
    found = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(?:# )?(CONFIG_\w+)(?:=.*| is not set)", line.strip()):
            found[match[1]] = line.strip()
    return found


def _have_tools(say: Say) -> None:
    packages = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if not packages:
        return
    waiting = ["--option", "DPkg::Lock::Timeout=300"]
    command = ["apt-get", *waiting, "--assume-yes", "--no-install-recommends", "install", *packages]
    by_hand = f"sudo {' '.join(command)}"
    if os.geteuid() != 0:
        raise RingroadError(f"building needs what is not installed: {', '.join(packages)}", by_hand)
    say(f"apt packages: {' '.join(packages)}")
    done = _apt(command)
    if done.returncode != 0:
        _apt(["apt-get", "update"])
        done = _apt(command)
    if done.returncode != 0:
        raise RingroadError(f"{' '.join(command)} failed:\n{done.stderr[-500:].rstrip()}", f"make it work: {by_hand}")


def _apt(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment)


def _chosen_source(say: Say, asked: str | None) -> str:
    """The version of the source package that was asked for, or that apt would install now."""
    if os.geteuid() == 0:
        say("apt-get update")
        _apt(["apt-get", "update"])
    known = _known_sources()
    if not known:
        raise RingroadError(
            f"apt knows no package {exactkernel.SOURCE_PACKAGE}",
            "use Debian 12 with its security updates among apt's sources, then: sudo apt-get update",
        )
    if asked is not None and asked not in known:
        remedy = f"choose among {', '.join(known)}"
        raise InputError(
            f"apt knows no such version of {exactkernel.SOURCE_PACKAGE}",
            place="--source-version",
            value=asked,
            remedy=remedy,
        )
    return asked or known[0]


def _known_sources() -> list[str]:
    """Every version that apt can get, the newest first."""
    said = subprocess.run(["apt-cache", "madison", exactkernel.SOURCE_PACKAGE], capture_output=True, text=True).stdout
    columns = (line.split("|") for line in said.splitlines())
    return [each[1].strip() for each in columns if len(each) == 3 and each[2].strip().endswith("Packages")]


def _installed(package: str) -> str | None:
    command = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", package]
    status, _, version = subprocess.run(command, capture_output=True, text=True).stdout.partition(" ")
    return version if status == "installed" else None


@contextmanager
def _alone(folder: Path, say: Say) -> Iterator[None]:
    """The lock is on the folder itself: it leaves no file, and dies with us."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another build of this kernel is at work; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
