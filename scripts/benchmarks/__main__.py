"""Command line of the benchmarks: progress on stderr, the result on stdout, whether all was reached as exit code."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks import dashboard, everycollective, foundation, kernels, live, reroute, silence, wallcost
from benchmarks.figure import Figure, table
from testbed import machine
from testbed.interruption import INTERRUPTED_EXIT_CODE, interruptible
from topologies.errors import RingroadError

Benchmark = Callable[[Callable[[str], None]], Iterable[Figure]]
"""Takes a function that tells people what is being done; yields its figures as they are measured."""


def _live(say: Callable[[str], None]) -> Iterator[Figure]:
    """The live testbed: from a verb to the kernel, up and down, ten thousand requests, what its dashboard costs."""
    yield from live.measure(say)
    yield from dashboard.measure(say)


BENCHMARKS: dict[str, Benchmark] = {
    "foundation": foundation.measure,
    "collectives": everycollective.measure,
    "live": _live,
    "reroute": reroute.measure,
    "silence": silence.measure,
    "kernels": kernels.measure,
    "wallcost": wallcost.measure,
}

NOT_REACHED = 1


def _say(message: str) -> None:
    print(f"bench: {message}", file=sys.stderr, flush=True)


def run(names: Sequence[str], figures: list[Figure], benchmarks: dict[str, Benchmark] = BENCHMARKS) -> None:
    """Measure the benchmarks named, in order; `figures` gets each figure once it is measured."""
    for name in names:
        for each in benchmarks[name](_say):
            _say(f"{'reached' if each.reached else 'NOT REACHED'}: {each.name}: {each.as_json()['value']} {each.unit}")
            figures.append(each)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures the project's figures on this machine and holds them against what they have to reach. "
        "Exit code 0: all reached; 1: some not; 2: wrong arguments; 130: interrupted. Run it on an idle machine.",
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="benchmarks to run (default: all)")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON on stdout")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; known: {', '.join(BENCHMARKS)}")
    if asked.list:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name}  {(benchmark.__doc__ or '').splitlines()[0]}")
        return 0
    figures: list[Figure] = []
    code = 0
    try:
        with interruptible():
            run(asked.names or list(BENCHMARKS), figures)
    except KeyboardInterrupt:
        _say("interrupted: figures that were measured stay")
        code = INTERRUPTED_EXIT_CODE
    except RingroadError as error:
        _say(str(error))
        code = error.exit_code
    _show(figures, asked.json)
    return code or (0 if all(each.reached for each in figures) else NOT_REACHED)


def _show(figures: Sequence[Figure], as_json: bool) -> None:
    label = {**machine.describe(), "ringroad": machine.commit()}
    if as_json:
        print(json.dumps({"machine": label, "figures": [each.as_json() for each in figures]}, ensure_ascii=False))
    else:
        print(table(figures))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED_EXIT_CODE)
