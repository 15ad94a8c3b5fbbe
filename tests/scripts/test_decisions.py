from __future__ import annotations

import pytest

from benchmarks import decisions


def test_the_figures_of_decisions_come_out_of_a_small_trial(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decisions, "RINGS", 3)
    monkeypatch.setattr(decisions, "SITES", 8)
    monkeypatch.setattr(decisions, "LINKS", 12)

    figures = [*decisions.maxmin_on_twelve_sites(), *decisions.all_pairs_widest()]

    assert [each.name.partition(",")[0] for each in figures] == ["maxmin"] * 6 + ["8 sites"] * 3
    assert figures[2].shown == figures[5].shown == 1
    assert all(each.shown > 0 for each in figures)


def test_a_random_wan_has_what_was_asked_for_and_is_the_same_again():
    wan = decisions.random_wan(10, 15, seed=3)

    assert (len(wan.sites), len(wan.links)) == (10, 15)
    assert wan == decisions.random_wan(10, 15, seed=3)
