"""The one place that builds and reads OpenFlow 1.3 objects: rules and batches in, messages out, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from controller.rules import (
    INGRESS_COOKIE_MASK,
    Action,
    Batch,
    Kind,
    RuleChange,
    SetDestination,
    cookie,
    pair_number_of,
)
from controller.stack import chosen


@dataclass(frozen=True)
class Encoded:
    """A batch as it goes over the wire. `xids` are of its changes, `barrier_xid` is of the barrier after them."""

    data: bytes
    xids: tuple[int, ...]
    barrier_xid: int


def encode_batch(datapath: Any, batch: Batch) -> Encoded:
    """All changes of a batch and their barrier in one piece, so that they leave in one write."""
    messages = [_flow_mod(datapath, change) for change in batch.changes]
    messages.append(chosen().parser.OFPBarrierRequest(datapath))
    xids = [_serialize(datapath, message) for message in messages]
    return Encoded(b"".join(bytes(message.buf) for message in messages), tuple(xids[:-1]), xids[-1])


def encode_counters_request(datapath: Any) -> bytes:
    """Asks for the counters of our ingress rules."""
    ofproto, parser = chosen().ofproto, chosen().parser
    request = parser.OFPFlowStatsRequest(
        datapath,
        0,
        ofproto.OFPTT_ALL,
        ofproto.OFPP_ANY,
        ofproto.OFPG_ANY,
        cookie(Kind.INGRESS),
        INGRESS_COOKIE_MASK,
        parser.OFPMatch(),
    )
    _serialize(datapath, request)
    return bytes(request.buf)


def counters_of(reply: Any) -> dict[int, int]:
    """Bytes by number of pair, from a reply to `encode_counters_request`."""
    return {pair_number_of(entry.cookie): entry.byte_count for entry in reply.body}


def more_follows(reply: Any) -> bool:
    """Whether this reply is not the last of its request."""
    return bool(reply.flags & chosen().ofproto.OFPMPF_REPLY_MORE)


def port_is_up(port: Any) -> bool:
    """By carrier and by configuration."""
    ofproto = chosen().ofproto
    return not (port.state & ofproto.OFPPS_LINK_DOWN or port.config & ofproto.OFPPC_PORT_DOWN)


def port_is_gone(port_status: Any) -> bool:
    """Whether a PortStatus says that the port was taken away."""
    return port_status.reason == chosen().ofproto.OFPPR_DELETE


def error_text(error: Any) -> str:
    """An OFPErrorMsg in words."""
    ofproto = chosen().ofproto
    return f"{ofproto.ofp_error_type_to_str(error.type)}, {ofproto.ofp_error_code_to_str(error.type, error.code)}"


def _flow_mod(datapath: Any, change: RuleChange) -> Any:
    ofproto, parser = chosen().ofproto, chosen().parser
    commands = {
        "add": ofproto.OFPFC_ADD,
        "modify": ofproto.OFPFC_MODIFY_STRICT,
        "delete": ofproto.OFPFC_DELETE_STRICT,
    }
    rule = change.rule
    fields = {"eth_dst": rule.match.eth_dst, "in_port": rule.match.in_port}
    return parser.OFPFlowMod(
        datapath,
        cookie=rule.cookie,
        command=commands[change.operation],
        priority=rule.priority,
        match=parser.OFPMatch(**{name: value for name, value in fields.items() if value is not None}),
        instructions=_instructions(rule.actions),
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
    )


def _instructions(actions: tuple[Action, ...]) -> list[Any]:
    ofproto, parser = chosen().ofproto, chosen().parser
    if not actions:
        return []
    built = [
        parser.OFPActionSetField(eth_dst=action.mac)
        if isinstance(action, SetDestination)
        else parser.OFPActionOutput(action.port)
        for action in actions
    ]
    return [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, built)]


def _serialize(datapath: Any, message: Any) -> int:
    xid = datapath.set_xid(message)
    message.serialize()
    return xid
