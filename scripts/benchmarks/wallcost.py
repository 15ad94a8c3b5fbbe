"""How much wall time a second of virtual time costs, against the links' rate and the number of DCs; a table and a plot.

    scripts/bench wallcost --json >cost.json
    PYTHONPATH=scripts .venv/bin/python -m benchmarks.wallcost cost.json cost.png

Figures belong to the machine: they have nothing to reach.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Reach, failed, figure
from topologies.errors import RingroadError

RATES_BPS = (100e6, 1e9, 10e9)
DCS = (2, 4, 8)
SHARD_S = {100e6: 0.2, 1e9: 0.05, 10e9: 0.01}
"""How long a shard takes at each rate: short enough that the slowest case is over in minutes."""
NAME = "exact: a second of {dcs} DCs in a full mesh at {rate} Mbit/s"
PATTERN = re.compile(r"exact: a second of (\d+) DCs in a full mesh at (\d+) Mbit/s")


def measure(say: Callable[[str], None]) -> Iterator[Figure]:
    """Wall seconds per virtual second in exact mode, while a ring runs, against rate and number of DCs."""
    from benchmarks.kernels import measured
    from testbed.kernels.choosing import Kernel

    for dcs in DCS:
        for rate_bps in RATES_BPS:
            name = NAME.format(dcs=dcs, rate=f"{rate_bps / 1e6:.0f}")
            say(name)
            size = int(rate_bps * SHARD_S[rate_bps] / 8) // 4096 * 4096
            try:
                found = measured(Kernel.EXACT, "ring", wan=f"mesh:{dcs}", rate=rate_bps, size=size, count=2)
            except RingroadError as error:
                say(f"failed: {error}")
                yield failed(name, "s", "one virtual second", Reach())
            else:
                yield figure(name, found["wall_per_virtual"], "s", "one virtual second", Reach())


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row for each number of DCs, a column for each rate; wall seconds per virtual second."""
    costs = _costs(figures)
    rates = sorted({rate for _, rate in costs})
    lines = [
        "| DCs | " + " | ".join(f"{rate:g} Mbit/s" for rate in rates) + " |",
        "|---|" + "---|" * len(rates),
    ]
    for dcs in sorted({dcs for dcs, _ in costs}):
        cells = (costs.get((dcs, rate)) for rate in rates)
        lines.append(f"| {dcs} | " + " | ".join("–" if cell is None else f"{cell:.3g}" for cell in cells) + " |")
    return "\n".join(lines)


def plot(figures: Sequence[dict[str, Any]], file: Path) -> None:
    """The same as a picture: one line for each number of DCs, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    costs = _costs(figures)
    drawn, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for dcs in sorted({dcs for dcs, _ in costs}):
        points = sorted((rate, cost) for (count, rate), cost in costs.items() if count == dcs)
        axes.loglog(*zip(*points, strict=True), marker="o", label=f"{dcs} DCs")
    axes.set_xlabel("rate of every link, Mbit/s")
    axes.set_ylabel("wall seconds per virtual second")
    axes.axhline(1, color="0.6", linewidth=0.8)
    axes.text(axes.get_xlim()[0], 1, " real time", va="bottom", color="0.4", fontsize=8)
    axes.legend(frameon=False)
    drawn.savefig(file, dpi=120)
    plt.close(drawn)


def _costs(figures: Sequence[dict[str, Any]]) -> dict[tuple[int, float], float]:
    found = ((PATTERN.fullmatch(each["name"]), each["value"]) for each in figures)
    return {(int(match[1]), float(match[2])): value for match, value in found if match and value is not None}


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wallcost", description=__doc__.splitlines()[0])
    parser.add_argument("figures", type=Path, help="what scripts/bench wallcost --json printed")
    parser.add_argument("plot", type=Path, help="the picture to write: .png, .svg or .pdf")
    asked = parser.parse_args()
    figures = json.loads(asked.figures.read_text())["figures"]
    print(table(figures))
    plot(figures, asked.plot)


if __name__ == "__main__":
    _main()
