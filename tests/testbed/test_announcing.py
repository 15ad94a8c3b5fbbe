from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from testbed.arm import announce
from testbed.experiment import read_experiment
from workers.job import ELEMENT_BYTES


class Hearing:
    """Stands for the controller: what it was told."""

    def __init__(self) -> None:
        self.told: list[dict] = []

    def demands(self, size_bytes: dict, happened_at: float) -> None:
        self.told.append(size_bytes)


def test_a_ring_is_announced_as_each_ranks_bytes_to_the_next_and_the_last_ones_to_the_first():
    text = f"{{name: least, wan: mesh4, payload: {1000 * ELEMENT_BYTES}, collectives: 20}}"
    experiment = read_experiment(text, Path("/nowhere/x.yaml"), 2**33)
    bed = SimpleNamespace(wan=experiment.wan, controller=Hearing())
    a, b, c, d = experiment.wan.dcs

    announce(bed, experiment, [2, 0, 3, 1])

    # Each of the 4 shards of 4,000 bytes but one passes each edge of the ring.
    assert bed.controller.told == [{(c, a): 12_000, (a, d): 12_000, (d, b): 12_000, (b, c): 12_000}]


def test_the_ring_of_those_who_are_left_carries_one_shard_less_for_each_who_is_gone():
    text = f"{{name: least, wan: mesh4, payload: {1000 * ELEMENT_BYTES}, collectives: 20}}"
    experiment = read_experiment(text, Path("/nowhere/x.yaml"), 2**33)
    bed = SimpleNamespace(wan=experiment.wan, controller=Hearing())
    a, _, c, d = experiment.wan.dcs

    announce(bed, experiment, [2, 0, 3])

    # Each of 3 shards of 4,000 bytes but one.
    assert bed.controller.told == [{(c, a): 8_000, (a, d): 8_000, (d, c): 8_000}]
