"""The thin OpenFlow app: framework events in, engine calls out. The same on Ryu and os-ken.

Switches of unknown datapath id are disconnected; a known one is read, and then gets what it lacks.
"""

from __future__ import annotations

from typing import Any

from controller import ofmsgs
from controller.channels import Channel, Channels
from controller.engine import Engine
from controller.malformed import Malformed, Verdict, examine, length_to_wait_for
from controller.portpolls import PortPolls
from controller.rules import Held
from controller.settings import Wiring
from controller.stack import chosen, examine_messages

_STACK = chosen()
_EVENTS = _STACK.ofp_event
_CONFIG = _STACK.handler.CONFIG_DISPATCHER
_MAIN = _STACK.handler.MAIN_DISPATCHER
_DEAD = _STACK.handler.DEAD_DISPATCHER
_on = _STACK.handler.set_ev_cls

CHALLENGE_S = 0.5
"""A switch that has not answered a barrier for so long is gone, when another connection claims to be it."""


class WanController(_STACK.app_base):
    """Translates; every decision is the engine's."""

    OFP_VERSIONS = [_STACK.ofproto.OFP_VERSION]  # noqa: RUF012 (the framework's way)

    def __init__(self, *args: Any, engine: Engine, channels: Channels, wiring: Wiring, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._engine, self._channels, self._wiring = engine, channels, wiring
        self._sites = {dpid: site for site, dpid in wiring.dpids.items()}
        self._edges = {(site, port): (site, neighbor) for (site, neighbor), port in wiring.ports.items()}
        self._pairs = tuple(engine.state.wanted)
        self._port_polls = None
        if engine.settings.capacity == "measured":
            self._port_polls = PortPolls(channels, engine, wiring)
            self._port_polls.start()
        self._tell_live: set[int] = set()
        examine_messages(self._examine, length_to_wait_for)

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
            incumbent = self._channels.at(self._sites[event.datapath.id])
            if incumbent is None:
                self._read(event.datapath)
            else:
                _STACK.hub.spawn(self._challenge, incumbent, event.datapath)
        elif event.state == _DEAD:
            self._gone(event.datapath)

    @_on(_EVENTS.EventOFPPortStatus, _MAIN)
    def port_status(self, event: Any) -> None:
        """A port went up or down, or away."""
        channel = self._channels.of(event.msg.datapath)
        edge = channel and self._edges.get((channel.site, event.msg.desc.port_no))
        if edge and channel.in_use:
            gone = ofmsgs.port_is_gone(event.msg)
            carrier = ofmsgs.port_is_up(event.msg.desc) and not gone
            up = carrier and self._works(event.msg.datapath.id, event.msg.desc)
            self._engine.port_changed(edge, up, "port_status" if up or not carrier else "blackhole")

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
        """Rules of a switch that is being read, or byte counters of ingress rules."""
        channel = self._channels.of(event.msg.datapath)
        if channel and not channel.take_read(event.msg):
            by_number = ofmsgs.counters_of(event.msg)
            counters = {self._pairs[number]: count for number, count in by_number.items() if number < len(self._pairs)}
            self._channels.take_counters(channel.site, counters, ofmsgs.more_follows(event.msg))

    @_on(_EVENTS.EventOFPPortStatsReply, _MAIN)
    def port_counters(self, event: Any) -> None:
        """Counters of a switch's ports."""
        channel = self._channels.of(event.msg.datapath)
        if channel and self._port_polls is not None:
            self._port_polls.take(channel.site, ofmsgs.port_counts_of(event.msg), ofmsgs.more_follows(event.msg))

    @_on(_EVENTS.EventOFPGroupDescStatsReply, _MAIN)
    def groups(self, event: Any) -> None:
        """Groups of a switch that is being read."""
        channel = self._channels.of(event.msg.datapath)
        if channel:
            channel.take_read(event.msg)

    def _examine(self, datapath: Any, version: int, kind: int, data: bytes) -> bool:
        """Whether a message is to be parsed. Who sends a malformed one is disconnected."""
        if datapath.state == _DEAD:
            return False
        try:
            return examine(version, kind, data) is Verdict.PARSE
        except Malformed as error:
            self._engine.malformed(datapath.id, str(error))
            datapath.close()
            return False

    def _challenge(self, incumbent: Channel, newcomer: Any) -> None:
        """Two connections claim one datapath id: the older one stays if it is alive, or else counts as a dead end."""
        if incumbent.answers(CHALLENGE_S):
            self._engine.refuse_duplicate(newcomer.id)
            newcomer.close()
            return
        self._gone(incumbent.datapath)
        if newcomer.state == _MAIN and self._channels.at(incumbent.site) is None:
            self._read(newcomer)

    def _read(self, datapath: Any) -> None:
        site = self._sites[datapath.id]

        def _connected(held: Held) -> None:
            up = {n for n, port in datapath.ports.items() if ofmsgs.port_is_up(port) and self._works(datapath.id, port)}
            edges = {edge: port for edge, port in self._wiring.ports.items() if edge[0] == site}
            down = frozenset(edge for edge, port in edges.items() if port not in up)
            self._engine.connected(site, down, held)

        for port in datapath.ports.values():
            self._works(datapath.id, port)
        self._channels.add(site, datapath).read(_connected)

    def _gone(self, datapath: Any) -> None:
        channel = self._channels.remove(datapath)
        if channel and channel.in_use:
            self._engine.lost(channel.site)

    def _works(self, dpid: int, port: Any) -> bool:
        """Whether the switch takes a port for working. One that has never called any port live does not use the bit."""
        live = ofmsgs.port_is_live(port)
        if live:
            self._tell_live.add(dpid)
        return live or dpid not in self._tell_live
