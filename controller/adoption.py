"""A switch is there again: what it holds is compared with what is wanted, and what is right is left alone. Pure.

And the opposite: what a switch holds is unknown once it is away, and what nobody uses any more is deleted in the end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from controller.detours import group_of
from controller.installing import FOREIGN, rule_at
from controller.rules import EMPTY, Batch, Group, GroupChange, Held, Rule, RuleChange
from controller.state import STRANGERS, Carrier, State
from controller.tunnels import ingress_rule, table_miss_rule
from controller.view import Pair
from topologies.model import Edge

DRAIN_S = 1.0
"""After the last packet was sent that way, what a path consists of stays for at least so long."""


def lose(state: State, site: str) -> State:
    """What the switch holds is unknown from here on; it goes on forwarding by it all the same."""
    return replace(
        state,
        connected=state.connected - {site},
        inner_sent={other: tags for other, tags in state.inner_sent.items() if other != site},
        inner_confirmed={other: tags for other, tags in state.inner_confirmed.items() if other != site},
        groups_sent={other: tags for other, tags in state.groups_sent.items() if other != site},
        groups_confirmed={other: tags for other, tags in state.groups_confirmed.items() if other != site},
        sent={pair: tag for pair, tag in state.sent.items() if pair[0] != site},
        confirmed={pair: tag for pair, tag in state.confirmed.items() if pair[0] != site},
        strangers={other: held for other, held in state.strangers.items() if other != site},
    )


def adopt(state: State, site: str, ports_down: frozenset[Edge], held: Held) -> State:
    """Connect a switch that holds this.

    Rules and groups that are as they should be count as confirmed. Before the start a pair stays on the tunnel that its
    ingress rule leads to, if that is one of the plan's: a controller that was restarted moves nobody for that.
    """
    state = lose(state, site)
    other_ports = frozenset(edge for edge in state.ports_down if edge[0] != site)
    state = replace(
        state,
        connected=state.connected | {site},
        ports_down=other_ports | ports_down,
        detours_due=True,
        groups_due=True,
        unused_since={tag: at for tag, at in state.unused_since.items() if tag != STRANGERS},
    )
    if held == EMPTY:
        return state
    rules = {(rule.priority, rule.match): rule for rule in held.rules}
    state = _adopt_inner(state, site, rules)
    state = _adopt_ingress(state, site, rules)
    return _adopt_groups(state, site, held.groups, tuple(rules.values()))


def _adopt_inner(state: State, site: str, rules: dict[tuple, Rule]) -> State:
    """Takes what is right and what will be replaced out of `rules`."""
    right = set()
    for carrier in state.carriers_through(site):
        wanted = rule_at(carrier, site, state.network.wiring)
        if rules.pop((wanted.priority, wanted.match), None) == wanted:
            right.add(carrier.tag)
    miss = table_miss_rule(state.network.plan.version)
    if rules.pop((miss.priority, miss.match), None) != miss:
        return state
    return replace(
        state,
        inner_sent={**state.inner_sent, site: frozenset(right)},
        inner_confirmed={**state.inner_confirmed, site: frozenset(right)},
    )


def _adopt_ingress(state: State, site: str, rules: dict[tuple, Rule]) -> State:
    """Takes the ingress rules of our pairs out of `rules`."""
    there: dict[Pair, str] = {}
    wanted = dict(state.wanted)
    for pair, tunnels in state.tunnels.items():
        if pair[0] != site:
            continue
        options = {ingress_rule(tunnel, state.network.wiring): tunnel for tunnel in tunnels}
        any_of_them = next(iter(options))
        found = rules.pop((any_of_them.priority, any_of_them.match), None)
        if found in options:
            there[pair] = options[found].tag
            if not state.started and pair not in state.pinned:
                wanted[pair] = options[found]
    sent, confirmed = {**state.sent, **there}, {**state.confirmed, **there}
    return replace(state, wanted=wanted, sent=sent, confirmed=confirmed)


def _adopt_groups(state: State, site: str, groups: tuple[Group, ...], strange_rules: tuple[Rule, ...]) -> State:
    known, strange = {}, []
    for group in groups:
        if group.number in state.keys[site]:
            known[group.number] = _tag_in(state, site, group)
        else:
            strange.append(group)
    # Rules were adopted without looking into the groups they hand over to: those are made right from here on.
    held = Held(strange_rules, tuple(strange))
    return replace(
        state,
        groups_sent={**state.groups_sent, site: known},
        groups_confirmed={**state.groups_confirmed, site: known},
        strangers=state.strangers if held == EMPTY else {**state.strangers, site: held},
    )


def _tag_in(state: State, site: str, group: Group) -> str:
    key = state.keys[site][group.number]
    hop = (key.edge, key.target)
    first = state.network.detours.get(hop) or state.network.first_detour(hop)
    for detour in (None, *([first] if first else []), *state.stand_ins.get(hop, ())):
        if group == group_of(key, detour, state.network.wiring, state.network.plan.version):
            return detour.tag if detour else ""
    return FOREIGN


def delete_unused(state: State, now: float) -> tuple[State, tuple[Batch, ...]]:
    """What no pair and no group points at, once it has been so for `DRAIN_S`: extra tunnels, stand-ins, strangers."""
    if not (state.ready and (state.strangers or state.stand_ins or state.extra_tunnels)):
        return replace(state, unused_since={}) if state.unused_since and state.ready else state, ()
    in_use = {*state.sent.values(), *(tag for tags in state.groups_sent.values() for tag in tags.values())}
    in_use |= {detour.tag for detour in state.detours.values()}
    stand_ins = [detour for detours in state.stand_ins.values() for detour in detours if detour.variant]
    unused: dict[str, Carrier] = {c.tag: c for c in (*state.extra_tunnels, *stand_ins) if c.tag not in in_use}
    names = [*unused, *([STRANGERS] if state.strangers else [])]
    since = {name: state.unused_since.get(name, now) for name in names}
    due = {name for name, at in since.items() if now - at >= DRAIN_S}
    state = replace(state, unused_since={name: at for name, at in since.items() if name not in due})
    batches: list[Batch] = []
    if STRANGERS in due:
        for site, held in state.strangers.items():
            batches += _deletions(site, held)
        state = replace(state, strangers={})
    state, deletions = delete_carriers(state, [carrier for tag, carrier in unused.items() if tag in due])
    return state, (*batches, *deletions)


def delete_carriers(state: State, carriers: Collection[Carrier]) -> tuple[State, tuple[Batch, ...]]:
    """Take the rules of tunnels and detours away; by now no packet may meet them any more."""
    if not carriers:
        return state, ()
    batches = (
        Batch(site, (RuleChange("delete", rule_at(carrier, site, state.network.wiring)),))
        for carrier in carriers
        for site in carrier.route[1:]
    )
    return _without(state, {carrier.tag for carrier in carriers}), tuple(batches)


def _deletions(site: str, held: Held) -> list[Batch]:
    """Rules before groups: a switch deletes every rule of a group with it."""
    rules = tuple(RuleChange("delete", rule) for rule in held.rules)
    groups = tuple(GroupChange("delete", group) for group in held.groups)
    return [Batch(site, changes) for changes in (rules, groups) if changes]


def _without(state: State, tags: set[str]) -> State:
    stand_ins = {
        hop: tuple(detour for detour in detours if detour.tag not in tags) for hop, detours in state.stand_ins.items()
    }
    return replace(
        state,
        tunnels={p: tuple(t for t in tunnels if t.tag not in tags) for p, tunnels in state.tunnels.items()},
        stand_ins={hop: detours for hop, detours in stand_ins.items() if detours},
        inner_sent={site: held - tags for site, held in state.inner_sent.items()},
        inner_confirmed={site: held - tags for site, held in state.inner_confirmed.items()},
    )
