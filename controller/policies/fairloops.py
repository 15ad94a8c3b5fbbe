"""The inner loops of `fairsearch`, compiled by numba: water filling, local search, branch and bound. Pure.

Flows, choices and edges are numbers, as in `fairshare.Problem`. The compiled code is kept beside this file, or
in the user's cache, for the next process. It knows no policies and no views.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy
from numba import njit
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

Floats = NDArray[numpy.float64]
Indexes = NDArray[numpy.intp]
Flags = NDArray[numpy.bool_]

TOLERANCE = 1e-7
"""Shares that differ by less than this fraction are equal."""

REFUTED, OPEN = 0, 1


def _compiled(function: Function) -> Function:
    """By numba, in the moment of its first call; anew in each process where compiled code can be kept nowhere."""
    try:
        return njit(cache=True)(function)
    except RuntimeError:
        return njit(function)


class Paths(NamedTuple):
    """`edges[choice, :sizes[choice]]` are the edges of a choice, and `uses[choice, edge]` says the same.

    The choices of flow f are `first[f]` to `first[f + 1]`; `capacities` are of the edges, in bit/s.
    """

    edges: Indexes
    sizes: Indexes
    uses: Flags
    first: Indexes
    capacities: Floats


class Partial(NamedTuple):
    """Where some flows are: the choice of each or -1, what edges carry by that, and the choices not ruled out."""

    placed: Indexes
    load: Floats
    domain: Flags


class Filling(NamedTuple):
    """Water filling under way: which flows have stopped, what edges have left, and the flows on them that go on."""

    stopped: Flags
    room: Floats
    going: Floats


@_compiled
def water_fill(paths: Paths, assignment: Indexes, shares: Floats) -> None:
    """Write the ascending shares of an assignment, in bit/s, into `shares`."""
    edges = len(paths.capacities)
    room, load = paths.capacities.copy(), numpy.zeros(edges)
    for choice in assignment:
        _add(paths, choice, load, 1.0)
    going = numpy.ones(len(assignment), numpy.bool_)
    full = numpy.zeros(edges, numpy.bool_)
    stopped = 0
    while stopped < len(assignment):
        level = numpy.inf
        for edge in range(edges):
            if load[edge] > 0.5:
                level = min(level, room[edge] / load[edge])
        if level == numpy.inf:  # Flows that take no edge at all.
            shares[stopped:] = 0.0
            return
        level = max(level, 0.0)
        for edge in range(edges):
            full[edge] = load[edge] > 0.5 and room[edge] <= level * (1 + TOLERANCE) * load[edge]
        for flow in range(len(assignment)):
            choice = assignment[flow]
            if going[flow] and _meets(paths, choice, full):
                going[flow] = False
                shares[stopped] = level
                stopped += 1
                _add(paths, choice, load, -1.0)
                _add(paths, choice, room, -level)


@_compiled
def fill_each(paths: Paths, assignments: Indexes, shares: Floats) -> None:
    """The same for each of many assignments, one a row."""
    for row in range(len(assignments)):
        water_fill(paths, assignments[row], shares[row])


@_compiled
def is_fairer(shares: Floats, than: Floats) -> bool:
    """As `fairshare.is_fairer` with the tolerance as its margin."""
    for place in range(len(shares)):
        if shares[place] > than[place] * (1 + TOLERANCE):
            return True
        if than[place] > shares[place] * (1 + TOLERANCE):
            return False
    return False


@_compiled
def climb(paths: Paths, assignment: Indexes, shares: Floats, steps: int) -> None:
    """Make the best change of one flow's path, again and again, `steps` times at most, until none is for the better.

    `assignment` and `shares` (as `water_fill` wrote them) are changed in place.
    """
    tried, best = numpy.empty(len(shares)), numpy.empty(len(shares))
    for _ in range(steps):
        best[:] = shares
        flow_at, choice_at = -1, -1
        for flow in range(len(assignment)):
            present = assignment[flow]
            for choice in range(paths.first[flow], paths.first[flow + 1]):
                if choice != present:
                    assignment[flow] = choice
                    water_fill(paths, assignment, tried)
                    if is_fairer(tried, best):
                        best[:] = tried
                        flow_at, choice_at = flow, choice
            assignment[flow] = present
        if flow_at < 0:
            return
        assignment[flow_at] = choice_at
        shares[:] = best


@_compiled
def prove(paths: Paths, weight: Floats, assignment: Indexes, shares: Floats, work: int) -> bool:
    """Whether `assignment` is the fairest at the end, changed in place, and `shares` with it, wherever one is fairer.

    False when the work (edges looked at) is used up before; the assignment is then the fairest that was found. Depth
    first. The next flow to place is the one with the fewest choices left ÷ `weight`, which grows by 1 whenever placing
    the flow is refuted (Boussemart, Hemery, Lecoutre & Sais, 2004); its widest choice comes first.
    """
    flows, edges, choices = len(assignment), len(paths.capacities), len(paths.edges)
    placed, load = numpy.full((flows + 1, flows), -1), numpy.zeros((flows + 1, edges))
    domain = numpy.ones((flows + 1, choices), numpy.bool_)
    ahead = numpy.empty((flows + 1, numpy.diff(paths.first).max()), numpy.int64)
    chosen, left = numpy.zeros(flows + 1, numpy.int64), numpy.zeros(flows + 1, numpy.int64)
    filling = Filling(numpy.empty(flows, numpy.bool_), numpy.empty(edges), numpy.empty(edges))
    shared, full, most = numpy.empty(edges), numpy.empty(edges, numpy.bool_), numpy.empty(flows)
    found = numpy.empty(flows)
    depth, entering = 0, True
    while depth >= 0:
        if entering:
            entering = False
            partial = Partial(placed[depth], load[depth], domain[depth])
            state, spent = _is_open(paths, shares, partial, filling, shared, full, most)
            work -= spent
            if work < 0:
                return False
            left[depth] = 0
            flow = _next_flow(paths, weight, partial) if state == OPEN else -1
            if flow >= 0:
                chosen[depth] = flow
                left[depth] = _narrowest_first(paths, flow, shares[0], partial, ahead[depth])
            elif state == OPEN:
                water_fill(paths, placed[depth], found)
                if is_fairer(found, shares):
                    assignment[:] = placed[depth]
                    shares[:] = found
            elif depth:
                weight[chosen[depth - 1]] += 1
        if left[depth]:
            left[depth] -= 1
            choice = ahead[depth, left[depth]]
            placed[depth + 1], load[depth + 1], domain[depth + 1] = placed[depth], load[depth], domain[depth]
            placed[depth + 1, chosen[depth]] = choice
            _add(paths, choice, load[depth + 1], 1.0)
            depth += 1
            entering = True
        else:
            depth -= 1
    return True


@_compiled
def _is_open(
    paths: Paths, shares: Floats, partial: Partial, filling: Filling, shared: Floats, full: Flags, most: Floats
) -> tuple[int, int]:
    """REFUTED if no completion of a partial assignment is fairer than one with these ascending `shares`; the work done.

    Fills all flows up together, level by level. A flow that is not placed yet loads only the edges that all its choices
    share, and stops at the most that its best choice has left. Restricting an allocation of all flows gives an
    allocation of this problem, and water filling is the fairest of those; so a completion is at most as fair as this.
    As long as the levels are those of `shares`, every completion that is as fair has the very same flows stopped at
    them and all others above: what is left then rules out choices by the level to come, which is more than the smallest
    share. A flow with one choice left is placed. `partial` keeps what was found out.
    """
    flows, spent, position = len(shares), 0, 0
    filling.stopped[:] = False
    filling.room[:] = paths.capacities
    filling.going[:] = partial.load
    while position < flows:
        present = shares[position]
        spent += paths.edges.size
        if not _narrow(paths, present, partial, filling):
            return REFUTED, spent
        level = _level(paths, present, partial, filling, shared, most)
        if level > present * (1 + TOLERANCE):
            return OPEN, spent
        if level < present * (1 - TOLERANCE):
            return REFUTED, spent
        limit = level * (1 + TOLERANCE)
        for edge in range(len(full)):
            full[edge] = shared[edge] > 0.5 and filling.room[edge] <= limit * shared[edge]
        more = _also_stop(paths, limit, present, partial, filling, full, most)
        count = _stop(paths, level, partial, filling, full, most)
        same = position
        while same < flows and shares[same] <= present * (1 + TOLERANCE):
            same += 1
        if count + more > same - position:
            return REFUTED, spent
        if count < same - position:
            return OPEN, spent
        position = same
    return REFUTED, spent


@_compiled
def _narrow(paths: Paths, present: float, partial: Partial, filling: Filling) -> bool:
    """Rule out choices that cannot have the `present` level; place flows that have one left. False: one has none."""
    least = present * (1 - TOLERANCE)
    again = True
    while again:
        again = False
        for flow in range(len(partial.placed)):
            if partial.placed[flow] >= 0 or filling.stopped[flow]:
                continue
            left, last = 0, -1
            for choice in range(paths.first[flow], paths.first[flow + 1]):
                if partial.domain[choice]:
                    for place in range(paths.sizes[choice]):
                        edge = paths.edges[choice, place]
                        if filling.room[edge] < least * (filling.going[edge] + 1):
                            partial.domain[choice] = False
                            break
                    else:
                        left += 1
                        last = choice
            if left == 0:
                return False
            if left == 1:
                partial.placed[flow] = last
                _add(paths, last, partial.load, 1.0)
                _add(paths, last, filling.going, 1.0)
                again = True
    return True


@_compiled
def _level(paths: Paths, present: float, partial: Partial, filling: Filling, shared: Floats, most: Floats) -> float:
    """Where the first flow stops that goes on. Writes what edges carry at least, and the `most` that flows can get."""
    shared[:] = filling.going
    level = numpy.inf
    for flow in range(len(most)):
        if partial.placed[flow] < 0 and not filling.stopped[flow]:
            most[flow] = _most(paths, flow, present, partial, filling)
            level = min(level, most[flow])
            _load_shared(paths, flow, partial, shared, 1.0)
    for edge in range(len(shared)):
        if shared[edge] > 0.5:
            level = min(level, filling.room[edge] / shared[edge])
    return level


@_compiled
def _stop(paths: Paths, level: float, partial: Partial, filling: Filling, full: Flags, most: Floats) -> int:
    """Stop the flows that meet a full edge, or have no choice for more than the level; how many these are."""
    count = 0
    for flow in range(len(most)):
        choice = partial.placed[flow]
        if filling.stopped[flow]:
            continue
        if choice >= 0:
            if not _meets(paths, choice, full):
                continue
            _add(paths, choice, filling.room, -level)
            _add(paths, choice, filling.going, -1.0)
        else:
            if most[flow] > level * (1 + TOLERANCE) and not _all_meet(paths, flow, partial, full):
                continue
            _load_shared(paths, flow, partial, filling.room, -level)
        filling.stopped[flow] = True
        count += 1
    return count


@_compiled
def _also_stop(
    paths: Paths, limit: float, present: float, partial: Partial, filling: Filling, full: Flags, most: Floats
) -> int:
    """How many flows at least stop at the present level besides those that `_stop` finds.

    A flow that is not placed and has no choice for more fills, by whatever choice, an edge that others are on already:
    one of these stops with it. Flows whose possible victims are not the same have not the same victim.
    """
    claimed, wanted = numpy.zeros(len(most), numpy.bool_), numpy.zeros(len(most), numpy.bool_)
    count = 0
    for flow in range(len(most)):
        placed = partial.placed[flow]
        claimed[flow] = filling.stopped[flow] or placed < 0 or _meets(paths, placed, full)
    for flow in range(len(most)):
        if filling.stopped[flow] or partial.placed[flow] >= 0 or most[flow] > limit:
            continue
        wanted[:] = False
        alone = True
        for choice in range(paths.first[flow], paths.first[flow + 1]):
            if partial.domain[choice] and alone:
                edge = _filled_by(paths, choice, limit, present, filling)
                alone = filling.going[edge] > 0.5
                for other in range(len(most)):
                    placed = partial.placed[other]
                    if placed >= 0 and not filling.stopped[other] and paths.uses[placed, edge]:
                        wanted[other] = True
                        alone = alone and not claimed[other]
        if alone:
            count += 1
            for other in range(len(most)):
                claimed[other] = claimed[other] or wanted[other]
    return count


@_compiled
def _filled_by(paths: Paths, choice: int, limit: float, present: float, filling: Filling) -> int:
    """An edge that has no more than the level left for a flow that takes this choice."""
    for place in range(paths.sizes[choice]):
        edge = paths.edges[choice, place]
        if filling.room[edge] - present * filling.going[edge] <= limit:
            return edge
    return paths.edges[choice, 0]


@_compiled
def _next_flow(paths: Paths, weight: Floats, partial: Partial) -> int:
    """The flow to place next; -1 if all are placed."""
    least, best = numpy.inf, -1
    for flow in range(len(weight)):
        if partial.placed[flow] < 0:
            left = 0
            for choice in range(paths.first[flow], paths.first[flow + 1]):
                left += partial.domain[choice]
            if left / weight[flow] < least:
                least, best = left / weight[flow], flow
    return best


@_compiled
def _narrowest_first(paths: Paths, flow: int, smallest: float, partial: Partial, ahead: Indexes) -> int:
    """Write the choices of a flow that are not ruled out, the one to try first last; how many there are."""
    count = 0
    widths = numpy.empty(len(ahead))
    for choice in range(paths.first[flow], paths.first[flow + 1]):
        if partial.domain[choice]:
            width = numpy.inf
            for place in range(paths.sizes[choice]):
                edge = paths.edges[choice, place]
                width = min(width, paths.capacities[edge] - smallest * partial.load[edge])
            at = count
            while at > 0 and widths[at - 1] >= width:
                widths[at], ahead[at] = widths[at - 1], ahead[at - 1]
                at -= 1
            widths[at], ahead[at] = width, choice
            count += 1
    return count


@_compiled
def _most(paths: Paths, flow: int, present: float, partial: Partial, filling: Filling) -> float:
    """The most that the best choice of a flow has left when every flow going on takes the present level."""
    most = 0.0
    for choice in range(paths.first[flow], paths.first[flow + 1]):
        if partial.domain[choice]:
            width = numpy.inf
            for place in range(paths.sizes[choice]):
                edge = paths.edges[choice, place]
                width = min(width, filling.room[edge] - present * filling.going[edge])
            most = max(most, width)
    return most


@_compiled
def _some_choice(paths: Paths, flow: int, partial: Partial) -> int:
    choice = paths.first[flow]
    while not partial.domain[choice]:
        choice += 1
    return choice


@_compiled
def _is_shared(paths: Paths, flow: int, partial: Partial, edge: int) -> bool:
    """Whether all choices of a flow that are not ruled out take an edge."""
    for choice in range(paths.first[flow], paths.first[flow + 1]):
        if partial.domain[choice] and not paths.uses[choice, edge]:
            return False
    return True


@_compiled
def _load_shared(paths: Paths, flow: int, partial: Partial, to: Floats, amount: float) -> None:
    """Add to the entry of each edge that all choices of a flow take."""
    one = _some_choice(paths, flow, partial)
    for place in range(paths.sizes[one]):
        if _is_shared(paths, flow, partial, paths.edges[one, place]):
            to[paths.edges[one, place]] += amount


@_compiled
def _all_meet(paths: Paths, flow: int, partial: Partial, full: Flags) -> bool:
    """Whether an edge that all choices of a flow take is full."""
    one = _some_choice(paths, flow, partial)
    for place in range(paths.sizes[one]):
        if full[paths.edges[one, place]] and _is_shared(paths, flow, partial, paths.edges[one, place]):
            return True
    return False


@_compiled
def _add(paths: Paths, choice: int, to: Floats, amount: float) -> None:
    """Add to the entry of each edge of a choice."""
    for place in range(paths.sizes[choice]):
        to[paths.edges[choice, place]] += amount


@_compiled
def _meets(paths: Paths, choice: int, full: Flags) -> bool:
    """Whether one of the edges of a choice is full."""
    for place in range(paths.sizes[choice]):  # noqa: SIM110 (numba knows no generators)
        if full[paths.edges[choice, place]]:
            return True
    return False
