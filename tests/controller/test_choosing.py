from __future__ import annotations

import pytest
from views import DIAMOND, view_of
from wans import wan_of

from controller.calm import Calm
from controller.choosing import choose
from controller.view import Routing, View

AB = ("a", "b")


class Answering:
    """A policy that answers with what it was given, or raises it."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def decide(self, view: View, now: float) -> Routing:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


VIEW = view_of(wan_of(DIAMOND))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ZeroDivisionError("float division by zero"), "ZeroDivisionError: float division by zero .test_choosing.py:"),
        (None, "a NoneType instead of a route for each pair"),
        ({}, "no route for a-b"),
        ({**VIEW.routing, AB: ("a", "x", "b")}, "is not among the candidates of a-b"),
        ({**VIEW.routing, AB: ["a", "c", "b"]}, "is not among the candidates of a-b"),
        ({**VIEW.routing, ("x", "y"): ("x", "y")}, "which is no pair"),
    ],
)
def test_a_policy_that_fails_changes_nothing_and_is_named_with_the_reason(answer: object, says: str):
    calm = Calm()

    choice = choose(Answering(answer), VIEW, calm, 0.0)

    assert choice.routing == VIEW.routing
    assert choice.calm is calm
    assert choice.fault.startswith("the policy Answering failed, routes stay: ")
    assert says.replace(".test", "(test") in choice.fault


def test_an_answer_in_order_passes_through_calm():
    answer = {**VIEW.routing, AB: ("a", "c", "b")}

    choice = choose(Answering(answer), VIEW, Calm(), 0.0)

    assert (choice.fault, choice.routing) == ("", VIEW.routing)
    assert choice.calm.wishes[AB].route == ("a", "c", "b")
    assert choose(Answering(answer), VIEW, choice.calm, 0.5).routing == answer
