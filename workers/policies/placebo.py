"""Policies that ignore the network: controls that show what re-ordering alone does. Pure."""

from __future__ import annotations

import random as random_numbers

from workers.policies.view import Order, RingView, from_first


def random(view: RingView) -> Order:
    """Another ring each time, drawn from (seed, turn); the current one where there is no other (two ranks)."""
    current, drawn = from_first(view.current), list(view.listed)
    numbers = random_numbers.Random(f"{view.seed}/{view.turn}")
    while len(drawn) > 2:
        numbers.shuffle(drawn)
        if from_first(tuple(drawn)) != current:
            return tuple(drawn)
    return view.current


def fixed(view: RingView) -> Order:
    """The listed order, whatever is measured."""
    return view.listed
