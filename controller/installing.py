"""What to send to which switch, and when it is safe: the order that keeps every packet on one whole path. Pure.

Tail before head: inner rules are confirmed by barrier before an ingress rule or a group points at them; groups are
confirmed in order before the rules that hand over to them; what nothing points at any more is deleted after a drain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from controller.detours import Detour, detour_rule, group_of
from controller.groups import GroupKey, keys_of
from controller.rules import Batch, Group, GroupChange, Rule, RuleChange
from controller.settings import Wiring
from controller.state import Carrier, State
from controller.tunnels import Tunnel, ingress_rule, inner_rule, table_miss_rule
from controller.view import edges_of

FOREIGN = "?"
"""Stands for the tag in a group whose second bucket is not one of ours: something else, or of an earlier process."""

Sent = tuple[State, tuple[Batch, ...]]


def rule_at(carrier: Carrier, site: str, wiring: Wiring) -> Rule:
    """The inner rule of a tunnel or a detour."""
    return (inner_rule if isinstance(carrier, Tunnel) else detour_rule)(carrier, site, wiring)


def wanted_detour(state: State, key: GroupKey) -> Detour | None:
    """What the second bucket of a group should be."""
    return state.detours.get((key.edge, key.target)) if state.detouring else None


def send_site(state: State, site: str) -> Sent:
    """Everything that a switch which has just been read does not hold yet."""
    return send_inner(state, state.carriers_through(site), (site,))


def send_inner(state: State, carriers: Iterable[Carrier], sites: Iterable[str]) -> Sent:
    """Inner rules of tunnels and detours that the switches of `sites` have not been sent, after all groups in use."""
    found = tuple(carriers)
    batches: list[Batch] = []
    for site in sites:
        held = state.inner_sent.get(site, frozenset())
        new = {c.tag: c for c in found if c.tag not in held and site in c.route[1:]}
        state, first = _send_missing_groups(state, site)
        batches += first
        if new:
            rules = (rule_at(carrier, site, state.network.wiring) for carrier in new.values())
            changes = tuple(RuleChange("add", rule) for rule in rules)
            batches.append(Batch(site, changes, tags=frozenset(new)))
            state = replace(state, inner_sent={**state.inner_sent, site: held | new.keys()})
    return state, tuple(batches)


def send_groups(state: State) -> Sent:
    """Second buckets that should be others, as far as the detours in them are whole."""
    if not (state.groups_due and state.started and state.inner_settled):
        return state, ()
    by_site: dict[str, dict[int, tuple[Group, str]]] = {}
    still_due = False
    for site in state.connected:
        for number, sent in state.groups_sent.get(site, {}).items():
            detour = wanted_detour(state, state.keys[site][number])
            tag = detour.tag if detour else ""
            if tag != sent:
                if detour is None or state.is_whole(detour):
                    by_site.setdefault(site, {})[number] = (_group(state, state.keys[site][number], detour), tag)
                else:
                    still_due = True
    state = replace(state, groups_due=still_due)
    batches = []
    for site, changed in by_site.items():
        tags = {number: tag for number, (_, tag) in changed.items()}
        changes = tuple(GroupChange("modify", group) for group, _ in changed.values())
        batches.append(Batch(site, changes, groups=tuple(tags.items())))
        state = _with_groups_sent(state, site, tags)
    return state, tuple(batches)


def send_ingress(state: State, confirmed: frozenset[str] | None = None) -> Sent:
    """Ingress rules of pairs that are wanted on another tunnel, once it is whole.

    Where only the inner rules of the tunnels `confirmed` (tags) are news, nothing else can have become whole.
    """
    by_site: dict[str, list[Tunnel]] = {}
    for pair, tunnel in () if confirmed == frozenset() else state.wanted.items():
        if confirmed is not None and tunnel.tag not in confirmed:
            continue
        if state.sent.get(pair) != tunnel.tag and pair[0] in state.connected and state.is_whole(tunnel):
            by_site.setdefault(pair[0], []).append(tunnel)
    batches: list[Batch] = []
    for site, tunnels in by_site.items():
        changes = tuple(_ingress_change(state, tunnel) for tunnel in tunnels)
        batches.append(Batch(site, changes, ingress=tuple((tunnel.pair, tunnel.tag) for tunnel in tunnels)))
    sent = {pair: tag for batch in batches for pair, tag in batch.ingress}
    return (replace(state, sent={**state.sent, **sent}) if sent else state), tuple(batches)


def confirm(state: State, batch: Batch) -> State:
    """A switch has done a batch."""
    site = batch.site
    tags = state.inner_confirmed.get(site, frozenset()) | batch.tags
    groups = {**state.groups_confirmed.get(site, {}), **dict(batch.groups)}
    return replace(
        state,
        inner_confirmed={**state.inner_confirmed, site: tags},
        groups_confirmed={**state.groups_confirmed, site: groups},
        confirmed={**state.confirmed, **dict(batch.ingress)},
    )


def with_tunnel(state: State, tunnel: Tunnel) -> State:
    """One more tunnel for its pair, with the groups and the detours that it needs."""
    hops = [(key.edge, key.target) for key in keys_of(tunnel.route)]
    found = {hop: state.network.first_detour(hop) for hop in hops if hop not in state.detours}
    first = {hop: detour for hop, detour in found.items() if detour is not None}
    return replace(
        state,
        tunnels={**state.tunnels, tunnel.pair: (*state.tunnels[tunnel.pair], tunnel)},
        keys=state.network.with_keys(state.keys, tunnel),
        detours={**state.detours, **first},
        stand_ins={**state.stand_ins, **{hop: (detour,) for hop, detour in first.items()}},
        groups_due=True,
        detours_due=True,
    )


def choose_detours(state: State) -> tuple[State, tuple[Detour, ...]]:
    """The detours that links which are down leave, and the ones among them that are not installed yet.

    Each hop has the detour of the whole WAN as long as that is up. Where there is no way round at all, the detour stays
    as it is.
    """
    down = state.down
    chosen, stand_ins, new = dict(state.detours), dict(state.stand_ins), []
    taken = state.taken
    for hop, present in state.detours.items():
        first = state.network.detours.get(hop) or state.network.first_detour(hop)
        route = first.route if down.isdisjoint(edges_of(first.route)) else state.network.around.route(hop, down)
        if route is None or route == present.route:
            continue
        known = (first, *stand_ins.get(hop, ()))
        chosen[hop] = next((detour for detour in known if detour.route == route), None) or _stand_in(
            state, known, route, taken
        )
        if chosen[hop] not in known:
            stand_ins[hop] = (*known[1:], chosen[hop])
            new.append(chosen[hop])
    changed = chosen != state.detours
    state = replace(
        state, detours=chosen, stand_ins=stand_ins, detours_due=False, groups_due=state.groups_due or changed
    )
    return state, tuple(new)


def _stand_in(state: State, known: tuple[Detour, ...], route: tuple[str, ...], taken: frozenset[str]) -> Detour:
    numbers = {detour.variant for detour in known}
    for variant in range(1, 256):
        detour = state.network.detour(known[0].hop, variant, route)
        if variant not in numbers and detour.tag not in taken:
            return detour
    return known[0]


def _send_missing_groups(state: State, site: str) -> tuple[State, tuple[Batch, ...]]:
    """Groups that are in use at a site and have not been sent, and the table-miss rule if nothing was sent before."""
    fresh = site not in state.inner_sent
    sent = state.groups_sent.get(site, {})
    missing = {number: key for number, key in state.keys[site].items() if number not in sent}
    if not missing and not fresh:
        return state, ()
    there = {group.number for group in state.strangers[site].groups} if site in state.strangers else set()
    changes: list[RuleChange | GroupChange] = []
    if fresh:
        changes.append(RuleChange("add", table_miss_rule(state.network.plan.version)))
        state = replace(state, inner_sent={**state.inner_sent, site: frozenset()})
    tags = {}
    for number, key in missing.items():
        detour = wanted_detour(state, key)
        safe = detour if detour is not None and state.is_whole(detour) else None
        tags[number] = safe.tag if safe else ""
        changes.append(GroupChange("modify" if number in there else "add", _group(state, key, safe)))
    if there & missing.keys():
        held = state.strangers[site]
        left = tuple(group for group in held.groups if group.number not in missing)
        state = replace(state, strangers={**state.strangers, site: replace(held, groups=left)})
    return _with_groups_sent(state, site, tags), (Batch(site, tuple(changes), groups=tuple(tags.items())),)


def _with_groups_sent(state: State, site: str, tags: Mapping[int, str]) -> State:
    return replace(state, groups_sent={**state.groups_sent, site: {**state.groups_sent.get(site, {}), **tags}})


def _group(state: State, key: GroupKey, detour: Detour | None) -> Group:
    return group_of(key, detour, state.network.wiring, state.network.plan.version)


def _ingress_change(state: State, tunnel: Tunnel) -> RuleChange:
    """The first on a connection is an `add`, whatever the switch held before; a move keeps the rule's counters."""
    return RuleChange("modify" if tunnel.pair in state.sent else "add", ingress_rule(tunnel, state.network.wiring))
