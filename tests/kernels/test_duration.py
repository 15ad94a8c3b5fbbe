"""How long a run will take, by hand calculation from the costs."""

from testbed.kernels import duration
from testbed.kernels.choosing import Kernel
from testbed.kernels.duration import Cost, allgather_bytes, expected_wall_s


def test_every_shard_goes_to_every_other_rank():
    assert allgather_bytes(4, 1000, 3) == 36_000


def test_the_wall_time_is_start_and_arms_and_report(monkeypatch):
    monkeypatch.setitem(duration.COSTS, Kernel.EXACT, Cost(10, 2, 1, 0.5, 1e-6))
    # 10 + 4 × (2 + 0.5 × 20 + 1e-6 × 3e6) + 1
    assert expected_wall_s(Kernel.EXACT, 4, 20.0, 3e6) == 71


def test_in_real_time_bytes_cost_nothing_more():
    assert expected_wall_s(Kernel.NATIVE, 2, 30.0, 1e12) == expected_wall_s(Kernel.NATIVE, 2, 30.0, 0)
