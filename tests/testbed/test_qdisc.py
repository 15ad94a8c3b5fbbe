"""What a shaped port must hold, by hand calculation: a full frame is 9000 + 14 bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.emulation.qdisc import (
    Impairment,
    QdiscTree,
    TokenBucket,
    attribute,
    attributes,
    decode_bucket,
    decode_impairment,
    encode_bucket,
    encode_impairment,
    holds,
    wanted_tree,
)
from topologies import EdgeProperties
from topologies.model import MAX_RATE_BPS, MIN_RATE_BPS

RATES = st.floats(MIN_RATE_BPS, MAX_RATE_BPS)


@pytest.mark.parametrize(
    ("rate_bps", "bucket"),
    [
        # 12.5 MB/s: 4 ms of tokens, 50 ms of queue
        (100e6, TokenBucket(12_500_000, 50_000, 625_000)),
        # 1.25 MB/s: 4 ms would be 5 kB and 50 ms 62.5 kB; two and sixteen frames are more
        (10e6, TokenBucket(1_250_000, 18_028, 144_224)),
    ],
)
def test_a_rate_becomes_a_bucket_with_room_for_late_timers_and_a_queue_in_frames(rate_bps, bucket):
    assert wanted_tree(EdgeProperties(rate_bps), netem=False) == QdiscTree(bucket, None)


def test_delay_jitter_and_loss_have_no_place_on_a_kernel_without_netem():
    properties = EdgeProperties(100e6, delay_s=0.025, jitter_s=0.001, loss=0.01)
    assert wanted_tree(properties, netem=False) == wanted_tree(EdgeProperties(100e6), netem=False)


def test_a_netem_holds_what_is_in_flight_and_what_waits():
    # 12.5 MB/s × 25 ms = 312,500 B = 34.7 frames in flight, 625,000 B = 69.3 frames waiting, twice for small packets
    tree = wanted_tree(EdgeProperties(100e6, delay_s=0.025, loss=0.001), netem=True)
    assert tree.impairment == Impairment(25_000_000, 0, 4_294_967, 2 * (35 + 70))


def test_more_rate_or_more_delay_makes_netem_hold_more():
    def held(rate_bps, delay_s):
        return wanted_tree(EdgeProperties(rate_bps, delay_s), netem=True).impairment.limit_packets

    # 12.5 MB/s × 250 ms = 3,125,000 B = 346.7 frames; a round trip's worth of queue are 6,250,000 B = 693.4 frames
    assert held(100e6, 0.25) == 2 * (347 + 694)
    # 12.5 MB/s × 20 ms = 250,000 B = 27.7 frames; a round trip's 500,000 B are less than 50 ms of queue
    assert held(100e6, 0.02) == 2 * (28 + 70)
    # 125 MB/s × 25 ms the same; 50 ms of queue are 6,250,000 B = 693.4 frames
    assert held(1e9, 0.025) == 2 * (347 + 694)


def test_a_bucket_is_laid_out_as_the_kernel_reads_it():
    encoded = encode_bucket(TokenBucket(12_500_000, 50_000, 625_000))
    found = dict(attributes(encoded))
    assert found.keys() == {1, 6}  # TCA_TBF_PARMS, TCA_TBF_BURST
    parms = found[1]
    assert len(parms) == 36  # struct tc_tbf_qopt
    assert struct.unpack_from("=I", parms, 8)[0] == 12_500_000  # rate.rate
    # limit, and 50,000 B at 12.5 MB/s = 4 ms in ticks of 64 ns
    assert struct.unpack_from("=II", parms, 24) == (625_000, 62_500)
    assert found[6] == struct.pack("=I", 50_000)


def test_a_rate_that_needs_64_bits_is_told_in_64_bits():
    # 100 Gbit/s = 12.5 GB/s, more than 2³² − 1
    encoded = encode_bucket(wanted_tree(EdgeProperties(100e9), netem=False).bucket)
    assert dict(attributes(encoded))[4] == struct.pack("=Q", 12_500_000_000)
    assert decode_bucket(encoded).rate_bytes_per_s == 12_500_000_000


@given(RATES, st.booleans())
def test_what_is_encoded_is_held_when_it_comes_back(rate_bps, netem):
    wanted = wanted_tree(EdgeProperties(rate_bps, 0.01, 0.001, 0.01, 0.02), netem)
    bucket = decode_bucket(encode_bucket(wanted.bucket))
    impairment = decode_impairment(encode_impairment(wanted.impairment)) if wanted.impairment else None
    assert holds(QdiscTree(bucket, impairment), wanted)


@given(RATES)
def test_every_rate_lets_full_frames_pass_and_is_rounded_down_by_less_than_a_byte_a_second(rate_bps):
    tree = wanted_tree(EdgeProperties(rate_bps), netem=False)
    assert tree.bucket.burst_bytes >= 9014
    assert tree.bucket.limit_bytes >= 9014
    assert 0 <= rate_bps - tree.properties.rate_bps < 8


@given(st.floats(1e-9, 10), st.floats(0, 10), st.floats(0, 0.999), st.floats(0, 0.999))
def test_properties_come_back_from_the_tree(delay_s, jitter_s, loss, reorder):
    back = wanted_tree(EdgeProperties(100e6, delay_s, jitter_s, loss, reorder), netem=True).properties
    assert back.delay_s == pytest.approx(delay_s, abs=1e-9)
    assert back.jitter_s == pytest.approx(jitter_s, abs=1e-9)
    assert back.loss == pytest.approx(loss, abs=1e-9)
    assert back.reorder == pytest.approx(reorder, abs=1e-9)


def test_reordering_is_laid_out_as_the_kernel_reads_it():
    # a quarter of 2³² in TCA_NETEM_REORDER, and every packet may be the one (gap 1); none: gap 0
    encoded = encode_impairment(Impairment(25_000_000, 0, 0, 100, 2**30))
    assert struct.unpack_from("=IIIIII", encoded)[3] == 1
    assert dict(attributes(encoded[24:]))[3] == struct.pack("=II", 2**30, 0)
    assert struct.unpack_from("=IIIIII", encode_impairment(Impairment(25_000_000, 0, 0, 100)))[3] == 0


@pytest.mark.parametrize(
    "other",
    [
        TokenBucket(12_500_001, 50_000, 625_000),
        TokenBucket(12_500_000, 40_000, 625_000),
        TokenBucket(12_500_000, 50_000, 1),
    ],
)
def test_another_rate_burst_or_limit_is_not_what_was_wanted(other):
    wanted = wanted_tree(EdgeProperties(100e6), netem=False)
    assert holds(wanted, wanted)
    assert not holds(QdiscTree(other, None), wanted)


def test_a_kernel_that_lost_its_netem_does_not_hold_what_was_wanted():
    wanted = wanted_tree(EdgeProperties(100e6, delay_s=0.01), netem=True)
    assert not holds(QdiscTree(wanted.bucket, None), wanted)


def test_attributes_are_padded_to_four_bytes_and_read_back():
    data = attribute(1, b"abc") + attribute(2, b"")
    assert data == b"\x07\x00\x01\x00abc\x00\x04\x00\x02\x00"
    assert list(attributes(data)) == [(1, b"abc"), (2, b"")]


def test_reading_attributes_ends_at_nonsense():
    assert list(attributes(b"\x00\x00\x01\x00")) == []
