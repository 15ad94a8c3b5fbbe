"""The thin OpenFlow app: framework events in, engine calls out. The same on Ryu and os-ken.

Switches of unknown datapath id are disconnected; a known one gets its rules as soon as its ports are known.
"""

from __future__ import annotations

from typing import Any

from controller import ofmsgs
from controller.channels import Channels
from controller.engine import Engine
from controller.settings import Wiring
from controller.stack import chosen

_STACK = chosen()
_EVENTS = _STACK.ofp_event
_CONFIG = _STACK.handler.CONFIG_DISPATCHER
_MAIN = _STACK.handler.MAIN_DISPATCHER
_DEAD = _STACK.handler.DEAD_DISPATCHER
_on = _STACK.handler.set_ev_cls


class WanController(_STACK.app_base):
    """Translates; every decision is the engine's."""

    OFP_VERSIONS = [_STACK.ofproto.OFP_VERSION]  # noqa: RUF012 (the framework's way)

    def __init__(self, *args: Any, engine: Engine, channels: Channels, wiring: Wiring, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._engine, self._channels, self._wiring = engine, channels, wiring
        self._sites = {dpid: site for site, dpid in wiring.dpids.items()}
        self._edges = {(site, port): (site, neighbor) for (site, neighbor), port in wiring.ports.items()}
        self._pairs = tuple(engine.state.wanted)

    @_on(_EVENTS.EventOFPSwitchFeatures, _CONFIG)
    def features(self, event: Any) -> None:
        """Who is calling: the door stays shut for a datapath id that is not of this network."""
        if event.msg.datapath_id not in self._sites:
            event.msg.datapath.close()
            self._engine.refuse_dpid(event.msg.datapath_id)

    @_on(_EVENTS.EventOFPStateChange, [_MAIN, _DEAD])
    def state_change(self, event: Any) -> None:
        """A switch is ready for rules, or gone."""
        if event.state == _MAIN and event.datapath.state == _MAIN:
            self._connected(event.datapath)
        elif event.state == _DEAD:
            channel = self._channels.remove(event.datapath)
            if channel:
                self._engine.lost(channel.site)

    @_on(_EVENTS.EventOFPPortStatus, _MAIN)
    def port_status(self, event: Any) -> None:
        """A port went up or down, or away."""
        channel = self._channels.of(event.msg.datapath)
        edge = channel and self._edges.get((channel.site, event.msg.desc.port_no))
        if edge:
            up = ofmsgs.port_is_up(event.msg.desc) and not ofmsgs.port_is_gone(event.msg)
            self._engine.port_changed(edge, up)

    @_on(_EVENTS.EventOFPBarrierReply, _MAIN)
    def barrier_reply(self, event: Any) -> None:
        """A batch is done."""
        channel = self._channels.of(event.msg.datapath)
        sent = channel and channel.take_confirmed(event.msg.xid)
        if sent and sent.refusal:
            self._engine.refused(sent.batch, sent.refusal)
        elif sent:
            self._engine.confirmed(sent.batch)

    @_on(_EVENTS.EventOFPErrorMsg, _MAIN)
    def error(self, event: Any) -> None:
        """A switch refuses something."""
        channel = self._channels.of(event.msg.datapath)
        reason = ofmsgs.error_text(event.msg)
        if channel and not channel.mark_refused(event.msg.xid, reason):
            self.logger.warning("error from the switch of %s: %s", channel.site, reason)

    @_on(_EVENTS.EventOFPFlowStatsReply, _MAIN)
    def counters(self, event: Any) -> None:
        """Byte counters of a switch's ingress rules."""
        channel = self._channels.of(event.msg.datapath)
        if channel:
            by_number = ofmsgs.counters_of(event.msg)
            counters = {self._pairs[number]: count for number, count in by_number.items() if number < len(self._pairs)}
            self._channels.take_counters(channel.site, counters, ofmsgs.more_follows(event.msg))

    def _connected(self, datapath: Any) -> None:
        site = self._sites[datapath.id]
        if self._channels.add(site, datapath):
            self._engine.lost(site)
        up = {number for number, port in datapath.ports.items() if ofmsgs.port_is_up(port)}
        edges = {edge: port for edge, port in self._wiring.ports.items() if edge[0] == site}
        self._engine.connected(site, frozenset(edge for edge, port in edges.items() if port not in up))
