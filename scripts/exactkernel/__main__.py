"""Command line of the build: progress on stderr, the path of the kernel on stdout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from testbed.kernels import exactbuild, exactkernel
from topologies.errors import RingroadError, refused_by_system


def _say(message: str) -> None:
    print(f"build-exact-kernel: {message}", file=sys.stderr, flush=True)


def _jobs(text: str) -> int:
    jobs = int(text)
    if jobs < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {text}")
    return jobs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/build-exact-kernel", description="Builds the kernel that runs experiments in virtual time."
    )
    parser.add_argument("--jobs", type=_jobs, default=len(os.sched_getaffinity(0)), help="files at a time")
    parser.add_argument("--source-version", metavar="VERSION", help="of the source package (default: the newest)")
    parser.add_argument("--check", action="store_true", help="say whether it is built, and build nothing")
    return parser


def _run(asked: argparse.Namespace) -> int:
    if asked.check:
        print(exactkernel.require().path)
        return 0
    kernel = exactkernel.find() if asked.source_version is None else None
    kernel = kernel or exactbuild.build(_say, jobs=asked.jobs, source_version=asked.source_version)
    _say(f"ready: Linux {kernel.release}, from {exactkernel.SOURCE_PACKAGE} {kernel.source_version}")
    print(kernel.path)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked for; the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        return _run(asked)
    except OSError as error:
        _say(str(refused_by_system(error, "the kernel cannot be built")))
    except RingroadError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted; run it again and it goes on from there")
        return 130
    return RingroadError.exit_code


if __name__ == "__main__":
    sys.exit(main())
