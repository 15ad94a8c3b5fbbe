"""Rows of `ringroad perf`: the definitions of nccl-tests by hand calculation, and what is refused."""

from __future__ import annotations

import pytest

from testbed.perf.rows import footer, header, line, row_of
from testbed.perf.session import sizes_between
from topologies.errors import InputError
from workers.perfjob import GLOO, RING, Perf, busbw, check, count_of, limit_bytes, record, row_bytes

KIB, MIB = 2**10, 2**20


def test_sizes_go_by_the_factor_up_to_the_last_that_fits():
    assert sizes_between(64 * KIB, MIB, 4) == (64 * KIB, 256 * KIB, MIB)
    assert sizes_between(100, 350, 2) == (100, 200)
    assert sizes_between(8, 8, 2) == (8,)


@pytest.mark.parametrize(("arguments", "option"), [((0, 8, 2), "-b"), ((8, 4, 2), "-e"), ((8, 16, 1), "-f")])
def test_what_is_no_series_of_sizes_is_refused_by_its_option(arguments: tuple[int, int, int], option: str):
    with pytest.raises(InputError, match=option):
        sizes_between(*arguments)


def test_counts_are_those_of_nccl_tests():
    # shards are whole multiples of 16 bytes: 1000 floats over 3 ranks are 333 each, cut to 332
    assert count_of("all_gather", 4000, 3, 4) == 332
    assert row_bytes("all_gather", 332, 3, 4) == 332 * 3 * 4
    # what is no shards has as many elements as fit, and its size is that
    assert count_of("all_reduce", 4001, 3, 4) == 1000
    assert row_bytes("broadcast", 1000, 3, 4) == 4000
    # a planned all_reduce works on n equal shards
    assert count_of("all_reduce", 4000, 3, 4, planned=True) == 999
    assert limit_bytes("all_to_all", 332, 4) == 1328


def test_bus_bandwidths_are_those_of_nccl_tests():
    # 4 ranks, 8 MB in 1 s: all_gather 3/4 of 8 MB/s, all_reduce 2 · 3/4, broadcast all of it
    assert [busbw(name, 8_000_000, 1.0, 4) for name in ("all_gather", "all_reduce", "broadcast")] == [6e6, 12e6, 8e6]


def two_iterations() -> list[dict]:
    by_rank = [
        {"collective": number, "time_s": {RING: 0.1 * number + rank, GLOO: 4.0}, "wrong": {RING: rank, GLOO: 0}}
        | {"memory_bytes": {RING: 10 * rank, GLOO: 3}}
        for number in range(3)
        for rank in range(2)
    ]
    perf = Perf("all_gather", (8 * MIB,), iterations=2, implementations=(RING, GLOO))
    return [record(perf, by_rank[2 * number : 2 * number + 2]) for number in range(3)]


def test_a_row_is_the_mean_of_the_slowest_ranks_without_the_warm_up_but_with_its_errors():
    perf = Perf("all_gather", (8 * MIB,), iterations=2, implementations=(RING, GLOO))
    row = row_of(perf, 2, MIB, 0.575, two_iterations())
    # then iterations 1 and 2 took 1.1 and 1.2 s on rank 1; it had one wrong element in each of three rounds
    assert row.ours.mean_s == pytest.approx(1.15)
    assert row.ours.wrong == 3 and row.gloo is not None and row.gloo.wrong == 0
    assert row.of_limit == pytest.approx(0.5)
    assert row.against_gloo == pytest.approx(1.15 / 4)
    assert (row.ours.memory_bytes, row.gloo.memory_bytes) == (10, 3)
    assert (row.size_bytes, row.op, row.root) == (8 * MIB, "none", -1)
    shown = line(row).split()
    assert shown[:5] == [str(8 * MIB), str(MIB), "float", "none", "-1"]
    # 8 MiB in 1.15 s is 0.0073 GB/s, half of it on the bus
    assert shown[5:] == ["1150000.0", "0.0073", "0.0036", "3", "575000.0", "50.0%", "4000000.0", "0.0010", "0", "0.287"]
    assert "3 FAILED" in footer([row])


def test_the_columns_stand_under_their_names():
    row = row_of(Perf("all_gather", (8 * MIB,), 2, implementations=(RING, GLOO)), 2, MIB, 0.575, two_iterations())
    names, text = header(True).splitlines()[1], line(row)
    for name in ("size", "count", "type", "algbw", "#wrong", "limit", "reached", "ratio"):
        end = names.index(name) + len(name)
        assert text[end - 1] != " " and (end == len(text) or text[end] == " "), name


def test_unchecked_elements_are_no_right_ones():
    perf = Perf("broadcast", (8,), iterations=1, warmup=0, check=False)
    said = {"collective": 0, "time_s": {RING: 1.0}, "wrong": {RING: 0}, "memory_bytes": {RING: 0}}
    row = row_of(perf, 2, 2, 0.0, [record(perf, [said])])
    assert "N/A" in line(row)
    assert "not checked" in footer([row])


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"collective": "all_around"}, "collective"),
        ({"sizes": (3,)}, "-b"),
        ({"collective": "broadcast", "root": 4}, "-r"),
        ({"datatype": "f8"}, "-d"),
        ({"op": "median"}, "-o"),
        ({"iterations": 0}, "-n"),
        ({"warmup": -1}, "-w"),
        ({"collective": "broadcast", "schedule": "trees"}, "--schedule"),
        ({"collective": "all_reduce", "schedule": "trees", "op": "avg"}, "-o"),
    ],
)
def test_what_cannot_be_run_is_refused_by_its_option(fields: dict, place: str):
    perf = Perf(**({"collective": "all_gather", "sizes": (MIB,)} | fields))
    with pytest.raises(InputError, match=f"^{place}:"):
        check(perf, 4)
