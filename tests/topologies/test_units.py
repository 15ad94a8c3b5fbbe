from __future__ import annotations

import pytest

from topologies.units import (
    format_duration,
    format_rate,
    format_size,
    parse_duration_s,
    parse_rate_bps,
    parse_size_bytes,
)


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("100mbit", 100e6),
        ("1.5Gbit/s", 1.5e9),
        ("20Mbps", 20e6),
        ("64 kbit", 64e3),
        ("9bit", 9),
        (".5tbit", 5e11),
        ("1e2mbit", 1e8),
        (8e6, 8e6),
    ],
)
def test_rates_are_read_in_decimal_bits_per_second(text, rate_bps):
    assert parse_rate_bps(text) == rate_bps


@pytest.mark.parametrize(
    "text", ["100", "100MB", "20MBps", "8MiB", "5ms", "mbit", "", "nanmbit", "1e999mbit", True, None, []]
)
def test_what_is_no_rate_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="100mbit"):
        parse_rate_bps(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("8MiB", 8 * 2**20), ("64KB", 64_000), ("1GiB", 2**30), ("1.5kB", 1500), (10, 10)]
)
def test_sizes_are_read_in_bytes_and_only_i_is_binary(text, size_bytes):
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["8", "8mb", "8Mbit", "0.5B", "1.0001KB", float("nan")])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("text", "duration_s"), [("25ms", 0.025), ("3min", 180), ("2h", 7200), ("330us", 330e-6), ("1.5 s", 1.5), (2, 2)]
)
def test_times_are_read_in_seconds(text, duration_s):
    assert parse_duration_s(text) == pytest.approx(duration_s)


@pytest.mark.parametrize("text", ["25", "25 mbit", "soon", float("inf")])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r"25ms|ms, s"):
        parse_duration_s(text)


def test_quantities_are_shown_in_the_unit_that_fits():
    assert format_rate(100e6) == "100 Mbit/s"
    assert format_rate(2.5e9) == "2.5 Gbit/s"
    assert format_size(8 * 2**20) == "8 MiB"
    assert format_size(64_000) == "64 kB"
    assert format_duration(0.00033) == "330 µs"
    assert format_duration(185) == "3 min 05 s"


@pytest.mark.parametrize("parse", [parse_rate_bps, parse_size_bytes, parse_duration_s])
@pytest.mark.parametrize("value", [10**400, -(10**400), "1e300GiB", "1e308h", "1e308gbit", "9" * 5000 + "s"])
def test_what_is_beyond_all_numbers_is_refused_and_quoted_in_short(parse, value):
    with pytest.raises(ValueError) as caught:
        parse(value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("parse", [parse_rate_bps, parse_size_bytes, parse_duration_s])
def test_a_number_in_a_text_needs_a_unit_and_is_quoted_where_it_has_none(parse):
    with pytest.raises(ValueError, match="'30' has no unit"):
        parse("30")
