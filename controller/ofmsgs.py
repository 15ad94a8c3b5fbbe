"""The one place that builds and reads OpenFlow 1.3 objects: rules and batches in, messages out, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.rules import (
    INGRESS_COOKIE_MASK,
    OURS_COOKIE,
    OURS_COOKIE_MASK,
    Action,
    Batch,
    Bucket,
    Change,
    Group,
    GroupChange,
    Kind,
    Match,
    Output,
    OutputBack,
    OutputGroup,
    Rule,
    RuleChange,
    SetDestination,
    Unknown,
    cookie,
    is_our_group,
    pair_number_of,
)
from controller.stack import chosen

ANY_COOKIE = 2**64 - 1


@dataclass(frozen=True)
class Encoded:
    """A batch as it goes over the wire. `xids` are of its changes, `barrier_xid` is of the barrier after them."""

    data: bytes
    xids: tuple[int, ...]
    barrier_xid: int


def encode_batch(datapath: Any, batch: Batch) -> Encoded:
    """All changes of a batch and their barrier in one piece, so that they leave in one write."""
    messages = [_modification(datapath, change) for change in batch.changes]
    messages.append(chosen().parser.OFPBarrierRequest(datapath))
    xids = [_serialize(datapath, message) for message in messages]
    return Encoded(b"".join(bytes(message.buf) for message in messages), tuple(xids[:-1]), xids[-1])


def encode_barrier(datapath: Any) -> Encoded:
    """A barrier alone: its answer shows that a switch is alive."""
    request = chosen().parser.OFPBarrierRequest(datapath)
    xid = _serialize(datapath, request)
    return Encoded(bytes(request.buf), (), xid)


@dataclass(frozen=True)
class ReadRequest:
    """Asks for all rules and all groups of a switch; `xids` are of the two requests."""

    data: bytes
    rules_xid: int
    groups_xid: int


def encode_read(datapath: Any) -> ReadRequest:
    """Asks for our rules, of whatever version, and for all groups."""
    ofproto, parser = chosen().ofproto, chosen().parser
    rules = parser.OFPFlowStatsRequest(
        datapath, 0, 0, ofproto.OFPP_ANY, ofproto.OFPG_ANY, OURS_COOKIE, OURS_COOKIE_MASK, parser.OFPMatch()
    )
    groups = parser.OFPGroupDescStatsRequest(datapath, 0)
    xids = _serialize(datapath, rules), _serialize(datapath, groups)
    return ReadRequest(bytes(rules.buf) + bytes(groups.buf), *xids)


def rules_of(reply: Any) -> tuple[Rule, ...]:
    """The rules in a reply to the first request of `encode_read`."""
    return tuple(
        Rule(entry.priority, _match_of(entry.match), _actions_of_instructions(entry.instructions), entry.cookie)
        for entry in reply.body
    )


def groups_of(reply: Any) -> tuple[Group, ...]:
    """Our groups in a reply to the second request of `encode_read`."""
    return tuple(_group_of(entry) for entry in reply.body if is_our_group(entry.group_id))


def encode_counters_request(datapath: Any, version: int) -> bytes:
    """Asks for the counters of our ingress rules of that version."""
    ofproto, parser = chosen().ofproto, chosen().parser
    request = parser.OFPFlowStatsRequest(
        datapath,
        0,
        ofproto.OFPTT_ALL,
        ofproto.OFPP_ANY,
        ofproto.OFPG_ANY,
        cookie(Kind.INGRESS, version),
        INGRESS_COOKIE_MASK,
        parser.OFPMatch(),
    )
    _serialize(datapath, request)
    return bytes(request.buf)


def counters_of(reply: Any) -> dict[int, int]:
    """Bytes by number of pair, from a reply to `encode_counters_request`."""
    return {pair_number_of(entry.cookie): entry.byte_count for entry in reply.body}


@dataclass(frozen=True)
class PortCounts:
    """Of one port since its switch started: bytes in and out, and packets that were to leave and could not."""

    received_bytes: int
    sent_bytes: int
    dropped: int


def encode_ports_request(datapath: Any) -> bytes:
    """Asks for the counters of all ports."""
    request = chosen().parser.OFPPortStatsRequest(datapath, 0, chosen().ofproto.OFPP_ANY)
    _serialize(datapath, request)
    return bytes(request.buf)


def port_counts_of(reply: Any) -> dict[int, PortCounts]:
    """By number of port, from a reply to `encode_ports_request`."""
    return {
        entry.port_no: PortCounts(entry.rx_bytes, entry.tx_bytes, entry.tx_dropped)
        for entry in reply.body
        if entry.port_no < chosen().ofproto.OFPP_MAX
    }


def more_follows(reply: Any) -> bool:
    """Whether this reply is not the last of its request."""
    return bool(reply.flags & chosen().ofproto.OFPMPF_REPLY_MORE)


def port_is_up(port: Any) -> bool:
    """By carrier and by configuration."""
    ofproto = chosen().ofproto
    return not (port.state & ofproto.OFPPS_LINK_DOWN or port.config & ofproto.OFPPC_PORT_DOWN)


def port_is_live(port: Any) -> bool:
    """Whether the switch takes the port for working: its carrier, and where it runs BFD on it, the path to the other
    end."""
    return bool(port.state & chosen().ofproto.OFPPS_LIVE)


def port_is_gone(port_status: Any) -> bool:
    """Whether a PortStatus says that the port was taken away."""
    return port_status.reason == chosen().ofproto.OFPPR_DELETE


def error_text(error: Any) -> str:
    """An OFPErrorMsg in words."""
    ofproto = chosen().ofproto
    return f"{ofproto.ofp_error_type_to_str(error.type)}, {ofproto.ofp_error_code_to_str(error.type, error.code)}"


def _modification(datapath: Any, change: Change) -> Any:
    return _group_mod(datapath, change) if isinstance(change, GroupChange) else _flow_mod(datapath, change)


def _flow_mod(datapath: Any, change: RuleChange) -> Any:
    ofproto, parser = chosen().ofproto, chosen().parser
    commands = {
        "add": ofproto.OFPFC_ADD,
        "modify": ofproto.OFPFC_MODIFY_STRICT,
        "delete": ofproto.OFPFC_DELETE_STRICT,
    }
    rule = change.rule
    fields = {"eth_dst": rule.match.eth_dst, "in_port": rule.match.in_port, **dict(rule.match.others)}
    return parser.OFPFlowMod(
        datapath,
        cookie=rule.cookie,
        # What is deleted has to be the very rule: somebody else may have put another in its place.
        cookie_mask=ANY_COOKIE if change.operation == "delete" else 0,
        command=commands[change.operation],
        priority=rule.priority,
        match=parser.OFPMatch(**{name: value for name, value in fields.items() if value is not None}),
        instructions=_instructions(rule.actions) if change.operation != "delete" else [],
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
    )


def _group_mod(datapath: Any, change: GroupChange) -> Any:
    ofproto, parser = chosen().ofproto, chosen().parser
    commands = {"add": ofproto.OFPGC_ADD, "modify": ofproto.OFPGC_MODIFY, "delete": ofproto.OFPGC_DELETE}
    buckets = [_bucket(bucket) for bucket in (change.group.buckets if change.operation != "delete" else ())]
    kind = ofproto.OFPGT_INDIRECT if len(buckets) == 1 else ofproto.OFPGT_FF
    return parser.OFPGroupMod(datapath, commands[change.operation], kind, change.group.number, buckets)


def _bucket(bucket: Bucket) -> Any:
    watch_port = chosen().ofproto.OFPP_ANY if bucket.watch_port is None else bucket.watch_port
    return chosen().parser.OFPBucket(watch_port=watch_port, actions=[_action(action) for action in bucket.actions])


def _instructions(actions: tuple[Action, ...]) -> list[Any]:
    ofproto, parser = chosen().ofproto, chosen().parser
    if not actions:
        return []
    return [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, [_action(action) for action in actions])]


def _action(action: Action) -> Any:
    ofproto, parser = chosen().ofproto, chosen().parser
    match action:
        case SetDestination(mac):
            return parser.OFPActionSetField(eth_dst=mac)
        case Output(port):
            return parser.OFPActionOutput(port)
        case OutputBack():
            return parser.OFPActionOutput(ofproto.OFPP_IN_PORT)
        case OutputGroup(number):
            return parser.OFPActionGroup(number)
        case Unknown(text):
            raise ValueError(f"an action that was only read: {text}")


def _match_of(match: Any) -> Match:
    fields = dict(match.items())
    eth_dst = fields.pop("eth_dst") if isinstance(fields.get("eth_dst"), str) else None
    in_port = fields.pop("in_port") if isinstance(fields.get("in_port"), int) else None
    return Match(eth_dst, in_port, tuple(sorted(fields.items())))


def _actions_of_instructions(instructions: list[Any]) -> tuple[Action, ...]:
    actions: list[Action] = []
    for instruction in instructions:
        if instruction.type == chosen().ofproto.OFPIT_APPLY_ACTIONS:
            actions += [_action_of(action) for action in instruction.actions]
        else:
            actions.append(Unknown(str(instruction)))
    return tuple(actions)


def _action_of(action: Any) -> Action:
    ofproto = chosen().ofproto
    if action.type == ofproto.OFPAT_OUTPUT:
        return OutputBack() if action.port == ofproto.OFPP_IN_PORT else Output(action.port)
    if action.type == ofproto.OFPAT_GROUP:
        return OutputGroup(action.group_id)
    if action.type == ofproto.OFPAT_SET_FIELD and action.key == "eth_dst" and isinstance(action.value, str):
        return SetDestination(action.value)
    return Unknown(str(action))


def _group_of(entry: Any) -> Group:
    ofproto = chosen().ofproto
    expected = ofproto.OFPGT_INDIRECT if len(entry.buckets) == 1 else ofproto.OFPGT_FF
    if entry.type != expected:
        return Group(entry.group_id, (Bucket(None, (Unknown(f"group of type {entry.type}"),)),))
    buckets = (
        Bucket(
            None if bucket.watch_port == ofproto.OFPP_ANY else bucket.watch_port,
            tuple(_action_of(action) for action in bucket.actions),
        )
        for bucket in entry.buckets
    )
    return Group(entry.group_id, tuple(buckets))


def _serialize(datapath: Any, message: Any) -> int:
    xid = datapath.set_xid(message)
    message.serialize()
    return xid
