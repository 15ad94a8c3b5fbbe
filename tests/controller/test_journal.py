from __future__ import annotations

from controller.journal import Journal
from controller.records import Move, Reconfiguration, reconfiguration_from_json, reconfiguration_to_json

A_TO_B = Move(("a", "b"), ("a", "b"), ("a", "c", "b"))
C_TO_B = Move(("c", "b"), ("c", "b"), ("c", "a", "b"))


def _open(journal: Journal, moves: tuple[Move, ...], tag: str, connected: str = "abc") -> list[Reconfiguration]:
    return journal.open("capacity", (1.0, 1.1, 1.2), moves, {move.pair: tag for move in moves}, set(connected))[1]


def test_a_reconfiguration_is_installed_when_the_last_switch_has_confirmed():
    journal = Journal()
    _open(journal, (A_TO_B, C_TO_B), "t1")

    assert journal.confirm(("a", "b"), "t1", 2.0) == []
    assert journal.confirm(("c", "b"), "t1", 3.0) == [
        Reconfiguration(1, "capacity", 1.0, 1.1, 1.2, (A_TO_B, C_TO_B), installed_at=3.0)
    ]


def test_two_on_their_way_are_told_apart_by_the_tunnel_that_is_confirmed():
    journal = Journal()
    _open(journal, (A_TO_B,), "t1")
    _open(journal, (A_TO_B,), "t2")

    first = journal.confirm(("a", "b"), "t1", 2.0)
    second = journal.confirm(("a", "b"), "t2", 3.0)

    assert [(r.number, r.installed_at, r.superseded) for r in first + second] == [(1, 2.0, ()), (2, 3.0, ())]


def test_a_move_that_was_overtaken_before_it_was_sent_is_superseded():
    journal = Journal()
    _open(journal, (A_TO_B,), "t1")
    _open(journal, (A_TO_B,), "t2")

    finished = journal.confirm(("a", "b"), "t2", 3.0)

    assert [(r.number, r.installed_at, r.superseded) for r in finished] == [(1, None, (("a", "b"),)), (2, 3.0, ())]


def test_what_a_lost_switch_has_not_confirmed_is_reported_lost():
    journal = Journal()
    _open(journal, (A_TO_B, C_TO_B), "t1")
    journal.confirm(("a", "b"), "t1", 2.0)

    assert [(r.installed_at, r.lost) for r in journal.lose("c")] == [(None, ("c",))]


def test_a_move_of_a_switch_that_is_away_already_is_lost_at_once():
    assert [r.lost for r in _open(Journal(), (C_TO_B,), "t1", connected="ab")] == [("c",)]


def test_a_confirmation_that_belongs_to_no_reconfiguration_finishes_none():
    assert Journal().confirm(("a", "b"), "t1", 1.0) == []


def test_a_record_survives_its_json():
    record = Reconfiguration(7, "pin", 1.0, 1.1, 1.2, (A_TO_B,), 1.3, ("c",), (("a", "b"),))

    assert reconfiguration_from_json(reconfiguration_to_json(record)) == record
