"""What ring agents are told of the network."""

import socket

from waiting import eventually

from testbed.arm import Trace
from testbed.bandwidths import BandwidthService, Network, bandwidth_matrix, described
from topologies.wire import Client, WireError
from workers.bandwidth import told

CAPACITIES = {("a", "b"): 10e6, ("b", "a"): 20e6, ("b", "c"): 5e6, ("c", "b"): 40e6}
ROUTES = {
    ("a", "b"): ("a", "b"),
    ("b", "a"): ("b", "a"),
    ("a", "c"): ("a", "b", "c"),
    ("c", "a"): ("c", "b", "a"),
    ("b", "c"): ("b", "c"),
    ("c", "b"): ("c", "b"),
}
BY_HAND = [[0.0, 10e6, 5e6], [20e6, 0.0, 5e6], [20e6, 40e6, 0.0]]


def test_a_pair_is_as_wide_as_the_narrowest_edge_of_its_path():
    assert bandwidth_matrix((CAPACITIES, ROUTES), ["a", "b", "c"]) == BY_HAND


def test_a_pair_without_a_path_or_over_an_unknown_edge_has_no_bandwidth():
    assert bandwidth_matrix(({}, {("a", "b"): ("a", "b")}), ["a", "b"]) == [[0.0, 0.0], [0.0, 0.0]]


def test_the_service_answers_each_source_and_says_which_it_knows(tmp_path):
    sources = {"oracle": lambda: (CAPACITIES, ROUTES), "feed": lambda: ({}, ROUTES)}
    with BandwidthService(tmp_path / "b.sock", sources) as service, Client(service.path) as client:
        # when / then
        assert client.ask("bandwidths", source="oracle", dcs=["a", "b", "c"])["bandwidths"] == BY_HAND
        assert client.ask("bandwidths", source="feed", dcs=["a", "b"])["bandwidths"] == [[0.0, 0.0], [0.0, 0.0]]
        try:
            client.ask("bandwidths", source="rumour", dcs=[])
            raise AssertionError("an unknown source was answered")
        except WireError as error:
            assert "oracle, feed" in str(error)


def test_the_socket_is_private_and_gone_afterwards(tmp_path):
    with BandwidthService(tmp_path / "b.sock", {}) as service:
        assert service.path.stat().st_mode & 0o777 == 0o600
    assert not service.path.exists()


def test_a_crowd_is_turned_away_and_leaves_room_when_it_goes(tmp_path):
    with BandwidthService(tmp_path / "b.sock", {"feed": lambda: Network({}, {})}) as service:
        crowd = [socket.socket(socket.AF_UNIX) for _ in range(100)]
        for connection in crowd:
            connection.connect(str(service.path))
        crowd[-1].settimeout(10)
        assert crowd[-1].recv(1) == b""
        for connection in crowd:
            connection.close()
        eventually(lambda: not service._open)
        with Client(service.path) as client:
            assert client.ask("bandwidths", source="feed", dcs=["a"])["bandwidths"] == [[0.0]]


def test_links_routes_delays_and_the_future_stand_beside_the_matrix():
    later = {edge: rate / 2 for edge, rate in CAPACITIES.items()}
    known = described(Network(CAPACITIES, ROUTES, {("a", "b"): 0.01}, [(0.0, CAPACITIES), (3.0, later)]), ["a", "b"])
    assert known["bandwidths"] == [[0.0, 10e6], [20e6, 0.0]]
    assert ["b", "c", 5e6] in known["links"]
    assert known["routes"] == [["a", "b", ["a", "b"]], ["b", "a", ["b", "a"]]]
    assert known["delays"] == [["a", "b", 0.01]]
    assert [at_s for at_s, _ in known["future"]] == [0.0, 3.0]
    assert ["a", "b", 5e6] in known["future"][1][1]


def test_an_agent_reads_what_the_service_says(tmp_path):
    network = Network(CAPACITIES, ROUTES, {("a", "b"): 0.01, ("b", "c"): 0.02}, [(0.0, CAPACITIES)])
    with BandwidthService(tmp_path / "b.sock", {"oracle": lambda: network}) as service:
        known = told("oracle", ("a", "b", "c"), service.path)
    assert known.network is not None
    assert known.network.routes[0, 2] == (("a", "b"), ("b", "c"))
    assert known.network.latencies_s == {
        (0, 1): 0.01,
        (1, 0): 0.0,
        (0, 2): 0.03,
        (2, 0): 0.0,
        (1, 2): 0.02,
        (2, 1): 0.0,
    }
    assert known.network.pair_bps((0, 2)) == known.bandwidths[0][2] == 5e6
    assert known.network.future == ((0.0, CAPACITIES),)


def test_the_future_counts_from_the_moment_it_is_asked_for():
    # given rates that change 2, 5 and 500 s after an arm's start at second 100
    known = [{("a", "b"): float(rate)} for rate in (1, 2, 3, 4)]
    trace = Trace(list(zip((0.0, 2.0, 5.0, 500.0), known, strict=True)))
    assert trace.future(100.0) == []
    trace.started_at = 100.0
    # at second 103 the second rate holds, the third comes in 2 s, and the fourth is beyond what is foreseen
    assert trace.future(103.0) == [(0.0, known[1]), (2.0, known[2])]
