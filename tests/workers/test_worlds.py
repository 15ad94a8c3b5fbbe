"""Who is in a world and in which ring, without a process: expectations are worked out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.changes import Changes
from workers.job import Job, Rank
from workers.world import World, first_world, home, in_world, reformed, world_from_json

DCS = ("amsterdam", "iowa", "lagos", "tokyo")
JOB = Job(ranks=tuple(Rank(dc) for dc in DCS), size_bytes=8, log_folder="/l", start_order=(0, 2, 1, 3))


def test_the_first_world_has_every_rank_in_the_order_that_the_job_begins_with():
    assert first_world(JOB) == World(0, (0, 1, 2, 3), (0, 2, 1, 3), 0)


def test_who_stays_keeps_the_order_of_the_ring():
    now = World(4, (0, 1, 2, 3), (0, 3, 1, 2), epoch=7)
    assert reformed(now, {0, 2, 3}, home(JOB)) == World(5, (0, 2, 3), (0, 3, 2), 8)


def test_who_comes_back_stands_behind_the_one_before_it_at_home():
    # at home 1 stands behind 2
    assert reformed(World(1, (0, 2, 3), (0, 3, 2), 1), {0, 1, 2, 3}, (0, 2, 1, 3)).order == (0, 3, 2, 1)
    # with 2 gone too, behind 0, the nearest before it
    assert reformed(World(1, (0, 3), (0, 3), 1), {0, 1, 3}, (0, 2, 1, 3)).order == (0, 1, 3)
    # the first of the ring is behind the last
    assert reformed(World(1, (1, 2, 3), (2, 1, 3), 1), {0, 1, 2, 3}, (0, 2, 1, 3)).order == (2, 1, 3, 0)


def test_a_world_of_the_same_ranks_has_the_same_ring_and_epoch():
    now = World(4, (0, 1, 3), (0, 3, 1), epoch=7)
    assert reformed(now, {0, 1, 3}, home(JOB)) == World(5, (0, 1, 3), (0, 3, 1), 7)


def test_ranks_and_places_are_two_names_of_the_same():
    world = World(1, (0, 2, 3), (2, 0, 3))
    assert world.places == (1, 0, 2)
    assert world.ranks(world.places) == [2, 0, 3]
    assert in_world(world, (3, 1, 2, 0)) == (3, 2, 0)
    assert world.job(JOB).dcs == ("amsterdam", "lagos", "tokyo")
    assert world_from_json(world.to_json()) == world


@given(st.permutations(range(6)), st.lists(st.sets(st.integers(0, 5), min_size=2), min_size=1, max_size=8))
def test_whoever_comes_and_goes_a_ring_has_every_member_once(order: list[int], memberships: list[set[int]]):
    world = World(0, tuple(range(6)), tuple(order))
    for members in memberships:
        following = reformed(world, members, tuple(order))
        assert sorted(following.order) == list(following.members) == sorted(members)
        assert following.epoch - world.epoch == (following.order != world.order)
        world = following
    # and once all are back, each stands where it was if nobody has changed the ring
    back = reformed(world, set(range(6)), tuple(order)).order
    at = back.index(order[0])
    assert back[at:] + back[:at] == tuple(order)


def test_the_record_says_who_left_who_came_and_how_long_all_stood_still():
    changes = Changes(JOB)
    # given: tokyo dies at 10 s; while the others join, lagos does, and iowa, which was gone, has come back
    changes.lost(3, "was killed by SIGKILL", 10.0)
    changes.forming(10.0, interrupts=True)
    changes.came(1, 10.1)
    changes.lost(2, "exited with status 3", 10.2)
    changes.forming(10.2, interrupts=False)
    record = changes.settled(World(2, (0, 1), (0, 1), 2), 5, 10.5)
    assert [(left["dc"], left["at"]) for left in record["left"]] == [("tokyo", 10.0), ("lagos", 10.2)]
    assert record["joined"] == [{"rank": 1, "dc": "iowa", "at": 10.1}]
    assert (record["at"], record["formed_at"], record["pause_s"], record["interrupted"]) == (10.0, 10.5, 0.5, True)
    # and the next one begins anew
    again = changes.settled(World(3, (0, 1), (0, 1), 2), 6, 20.0)
    assert (again["left"], again["joined"], again["pause_s"], again["interrupted"]) == ([], [], 0.0, False)


def test_one_that_dies_before_it_has_joined_has_neither_come_nor_left():
    changes = Changes(JOB)
    changes.came(1, 10.0)
    changes.lost(1, "was killed by SIGKILL", 10.1)
    record = changes.settled(World(2, (0, 2, 3), (0, 2, 3)), 5, 10.5)
    assert (record["left"], record["joined"]) == ([], [])
