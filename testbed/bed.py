"""The emulated WAN as a context manager: the one owner of the network, and the interface that people script against.

    with Testbed(wan) as bed:
        bed.shape("tokyo-oregon", rate_bps=30e6)
        bed.dc("tokyo").popen(["iperf3", "-s"])

It knows nothing of experiments, arms or workers.
"""

from __future__ import annotations

import atexit
import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controller.client import ControllerClient, wait_listening
from controller.settings import ControllerConfig, ControllerSettings, save_config
from testbed.emulation import interfaces, liveness, openvswitch, packetsockets, precedence, state, switchdaemon
from testbed.emulation.capabilities import Capabilities, detect
from testbed.emulation.clean import clean
from testbed.emulation.dc import Dc
from testbed.emulation.interfaces import TcpSettings
from testbed.emulation.liveness import BfdSettings
from testbed.emulation.network import Network
from testbed.emulation.plan import NetworkPlan, new_run_id
from testbed.emulation.processes import Ledger, Process, ProcessDied, start_ticks
from testbed.emulation.programs import require
from testbed.emulation.shaper import QueueStatus, Shaper
from testbed.emulation.signals import deferred_signals
from testbed.emulation.trafficcontrol import TrafficControlError
from testbed.feed import Feed, FeedSettings
from testbed.kernels.choosing import IMPAIRMENTS
from testbed.wiring import wiring_of
from topologies import Edge, EdgeProperties, InputError, Link, RingroadError, Wan
from topologies.errors import refused_by_system

LinkRef = str | Edge | Link
CONTROLLER_READY_S = 30.0
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LinkStatus:
    """One directed edge now. `properties` are the kernel's; counters count since the testbed came up.

    `queue_drops` is congestion at the shaped queue, and the loss that the link is set to. Packets that were lost
    anywhere else: `Testbed.stray_drops`.
    """

    edge: Edge
    link: str
    properties: EdgeProperties
    up: bool
    blackholed: bool
    sent_bytes: int
    backlog_bytes: int
    queue_drops: int


class Testbed:
    """A WAN in this machine's kernel for as long as the context lasts. Methods may be called from several threads.

    Up, it holds the machine's lock; a second one is refused with the name of the first. Whatever happens, at the end
    nothing of it is left. `controller=None` leaves the switches without rules.
    """

    __test__ = False

    def __init__(
        self,
        wan: Wan,
        *,
        controller: ControllerSettings | None = ControllerSettings(),  # noqa: B008 (frozen)
        log_folder: Path | None = None,
        feed: FeedSettings = FeedSettings(),  # noqa: B008 (frozen)
        tcp: TcpSettings = TcpSettings(),  # noqa: B008 (frozen)
        bfd: BfdSettings | None = BfdSettings(),  # noqa: B008 (frozen)
    ) -> None:
        """Without `bfd` no switch ever notices a link that is up and lets nothing through."""
        self.wan = wan
        self.run_id = new_run_id(state.owners())
        self.state = state.STATE_ROOT / self.run_id
        self.plan = NetworkPlan(self.run_id, wan)
        self.log_folder = log_folder or self.state / "logs"
        self.notes: list[str] = []
        self.capabilities: Capabilities
        self.controller: ControllerClient | None = None
        self._controller_settings = controller
        self._feed_settings = feed
        self._tcp = tcp
        self._bfd = bfd
        self._lock = threading.RLock()
        self._machine = state.MachineLock()
        self._wanted = dict(wan.edges)
        self._blackholed: set[Edge] = set()
        self._left_something = False
        self._failing_since: dict[Edge, int] = {}
        self._lost_to_failures: Counter[Edge] = Counter()
        self._undo: list[Callable[[], None]] = []
        self._supervised: list[Process] = []
        self._feed: Feed | None = None
        self._truth: Feed | None = None

    def __enter__(self) -> Testbed:
        atexit.register(self._take_down)
        try:
            self._come_up()
        except BaseException as error:
            self._take_down()
            if isinstance(error, OSError):
                raise refused_by_system(error, "the WAN cannot be brought up") from error
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._take_down()

    @property
    def net(self) -> Any:
        """The `mininet.net.Mininet`: its own objects for this network, for whoever knows Mininet."""
        return self._network.net

    def site(self, name: str) -> Dc:
        """The host of any site, a transit point's too. InputError if there is no such site."""
        return self._dcs[self.wan.site(name).name]

    def dc(self, name: str) -> Dc:
        """The host of a DC, by name. InputError if there is no such site."""
        return self.site(name)

    def processes(self) -> list[Process]:
        """What the run depends on: Open vSwitch, the sites' shells, the controller if there is one. For a `Watch`."""
        return list(self._supervised)

    def start(self, name: str, args: list[str], log: Path | None = None, **options: object) -> Process:
        """Start a program beside the DCs, on the host's network; it ends with the testbed at the latest."""
        return self._ledger.start(name, args, log or self.log_folder / f"{name}.log", **options)[0]

    def shape(
        self,
        link: LinkRef,
        *,
        rate_bps: float | None = None,
        delay_s: float | None = None,
        jitter_s: float | None = None,
        loss: float | None = None,
        reorder: float | None = None,
        direction: Edge | None = None,
    ) -> None:
        """Change what a link does to packets, in place; None keeps. Both directions unless `direction` names one.

        Returns once the kernel holds it; the controller hears of rates through the feed.
        """
        given = {"rate_bps": rate_bps, "delay_s": delay_s, "jitter_s": jitter_s, "loss": loss, "reorder": reorder}
        changed = {name: value for name, value in given.items() if value is not None}
        edges = self.wan.link(link).edges
        if direction is not None and direction not in edges:
            known = " and ".join(f"{a} → {b}" for a, b in edges)
            raise InputError(
                f"{direction[0]} → {direction[1]} is no direction of link {self.wan.link(link).name}",
                remedy=f"it has {known}",
            )
        with self._lock:
            chosen = edges if direction is None else (direction,)
            self.shape_many({edge: replace(self._wanted[edge], **changed) for edge in chosen})

    def shape_many(self, changes: Mapping[Edge, EdgeProperties]) -> None:
        """Give directed edges these properties, all of them one after the other with nothing in between."""
        with self._lock:
            self._note_what_is_missing(changes)
            self._shaper.apply(changes)
            held_at = time.monotonic()
            before = {edge: self._wanted[edge].rate_bps for edge in changes}
            self._wanted.update(changes)
            rates = {edge: p.rate_bps for edge, p in changes.items() if p.rate_bps != before[edge]}
            if rates and self._feed is not None:
                self._feed.tell(rates, held_at)
            if rates and self._truth is not None:
                self._truth.tell(rates, held_at)

    def fail(self, link: LinkRef) -> None:
        """Take a link down at both ends: switches see the carrier go. Queues lose packets, but keep their settings."""
        with self._lock:
            failing = self.wan.link(link)
            drops = self._drops()
            for edge in failing.edges:
                self._failing_since.setdefault(edge, drops[self._way_in(edge)])
            self._set_link(failing, up=False)

    def blackhole(self, link: LinkRef) -> None:
        """From now on nothing passes, both ways, and no switch can see why: the carrier stays."""
        with self._lock:
            for edge in self.wan.link(link).edges:
                self._shaper.swallow(edge)
                self._blackholed.add(edge)

    def heal(self, link: LinkRef | None = None) -> None:
        """Undo `fail` and `blackhole` for one link, or for all. Rates stay as they are."""
        with self._lock:
            links = [self.wan.link(link)] if link is not None else self.wan.links
            for healed in links:
                for edge in healed.edges:
                    if edge in self._blackholed:
                        self._shaper.pass_again(edge)
                        self._blackholed.discard(edge)
                self._set_link(healed, up=True)
            over = [edge for healed in links for edge in healed.edges if edge in self._failing_since]
            drops = self._drops() if over else {}
            for edge in over:
                self._lost_to_failures[edge] += drops[self._way_in(edge)] - self._failing_since.pop(edge)

    def links(self) -> list[LinkStatus]:
        """Every directed edge as the kernel holds it now, in the order of the WAN."""
        with self._lock:
            queues = self._shaper.status()
            return [self._link_status(edge, queues) for edge in self.wan.edges]

    def stray_drops(self) -> dict[str, int]:
        """Packets lost so far where no link is emulated, by place: this machine was too slow to carry them.

        Places are the ways into a switch: from a neighbor (`tokyo → oregon`), or from the site's host. What a link has
        lost while `fail` had it down is left out.
        """
        with self._lock:
            drops = self._drops()
            for edge, lost in self._losses_by_failures(drops).items():
                drops[self._way_in(edge)] -= lost
            return drops

    def _drops(self) -> dict[str, int]:
        """As `stray_drops`, with what was lost to `fail`."""
        places = {site.host_port: f"host of {site.site} → its switch" for site in self.plan.sites.values()}
        places |= {self.plan.ports[b, a].interface: self._way_in((a, b)) for a, b in self.plan.ports}
        drops = {place: interfaces.drops(name) for name, place in places.items()}
        pid = openvswitch.switch_daemon_pid()
        if self.capabilities.openvswitch_datapath == "netdev" and pid is not None:
            indexes = {index: places[name] for name, index in self._switch_indexes.items()}
            for index, count in packetsockets.receive_drops(pid, indexes).items():
                drops[indexes[index]] += count
        return drops

    def _losses_by_failures(self, drops: Mapping[str, int]) -> Counter[Edge]:
        """By edge, up to now: what was lost in failures that are healed, and since the beginning of those that last."""
        since = {edge: drops[self._way_in(edge)] - before for edge, before in self._failing_since.items()}
        return self._lost_to_failures + Counter(since)

    @staticmethod
    def _way_in(edge: Edge) -> str:
        return f"{edge[0]} → {edge[1]}"

    def reset(self, seed: int | None = None) -> None:
        """As it was at the start: links healed (and known to be), first properties, routes and demands forgotten.

        `seed` is what the feed draws its noise and losses from; from now on another one if given.
        """
        with self._lock:
            self.heal()
            if self._feed is not None:
                self._feed.forget(seed)
            self._wanted.update(self.wan.edges)
            self._shaper.apply(self.wan.edges)
            if self._truth is not None:
                rates = {edge: properties.rate_bps for edge, properties in self.wan.edges.items()}
                self._truth.tell(rates, time.monotonic())
        self._wait_for_bfd()
        if self.controller is not None and self._controller_settings is not None:
            settings = self._controller_settings
            rates = {edge: properties.rate_bps for edge, properties in self.wan.edges.items()}
            self.controller.reset(settings.policy, settings.period_s, rates)

    def _come_up(self) -> None:
        self.capabilities = detect()
        self.capabilities.check_congestion_control(self._tcp.congestion_control)
        require("mnexec")
        openvswitch.check_running()
        self._machine.take(self.run_id)
        self._undo.append(self._machine.release)
        clean()
        state.make_state_folder(self.run_id)
        self._undo.append(self._forget)
        self.log_folder.mkdir(parents=True, exist_ok=True)
        self._ledger = Ledger(self.run_id, self.state)
        self._note_what_is_missing(self.wan.edges)
        started = self._start_controller()
        self._make_network()
        self._start_bfd()
        if (pid := self._forwarding_daemon()) is not None:
            switchdaemon.settle(pid, [dc.netns_pid for dc in self._dcs.values()])
        if started is not None:
            self._join_controller(*started)
        self._supervise()

    def _make_network(self) -> None:
        netlink = interfaces.open_netlink()
        self._undo.append(lambda: interfaces.close_netlink(netlink))
        self._netlink = netlink
        self._network = Network(self.plan, self.capabilities.openvswitch_datapath, self._tcp, self._ledger.record)
        self._undo += [self._ledger.end_all, self._remove_network, self._ledger.end_all]
        self._network.up(netlink)
        self._dcs = {
            site.site: Dc(site, self._network.host(site.site).pid, self._ledger, self.log_folder)
            for site in self.plan.sites.values()
        }
        self._indexes = interfaces.indexes({e: port.interface for e, port in self.plan.ports.items()})
        self._switch_indexes = interfaces.indexes({name: name for name in self._network.switch_interfaces()})
        self._ready_switches()
        self._shaper = Shaper(self._indexes, self.capabilities.netem)
        self._undo.append(self._shaper.close)
        self._shaper.apply(self._wanted)

    def _remove_network(self) -> None:
        """Over a connection of its own: an interrupt in the middle of a request leaves the other one unusable."""
        with interfaces.netlink_for_now() as netlink:
            self._network.down(netlink)

    def _start_bfd(self) -> None:
        """Returns once every session is up, so that no port is taken for dead when the controller first looks."""
        if self._bfd is None or not self.plan.ports:
            return
        try:
            for edge in self.plan.ports:
                self._shaper.expedite(edge, liveness.DESTINATION_MAC)
        except TrafficControlError as error:
            self.notes.append(f"BFD is off: its packets would wait in the queues of links that are full ({error})")
            log.warning("%s", self.notes[-1])
            self._bfd = None
            return
        openvswitch.vsctl(liveness.start_commands([port.interface for port in self.plan.ports.values()], self._bfd))
        self._wait_for_bfd()

    def _wait_for_bfd(self) -> None:
        if self._bfd is not None:
            openvswitch.vsctl(liveness.wait_commands([port.interface for port in self.plan.ports.values()]))

    def _ready_switches(self) -> None:
        if (pid := self._forwarding_daemon()) is not None:
            self._undo.append(lambda: switchdaemon.restore(pid))
            switch = next(iter(self.plan.sites.values())).switch
            for note in switchdaemon.make_ready(pid, switch, self._switch_indexes.values()):
                self._note(note)

    def _forwarding_daemon(self) -> int | None:
        return openvswitch.switch_daemon_pid() if self.capabilities.openvswitch_datapath == "netdev" else None

    def _start_controller(self) -> tuple[Process, subprocess.Popen[bytes]] | None:
        if self._controller_settings is None:
            return None
        file, socket = self.state / "controller.json", self.state / "controller.sock"
        save_config(ControllerConfig(self.wan, wiring_of(self.plan), socket, self._controller_settings), file)
        self._undo.append(self._ledger.end_all)
        command = [sys.executable, "-m", "controller", "--config", str(file)]
        log_file = self.log_folder / "controller.log"
        process, popen = self._ledger.start("controller", command, log_file, stdout=subprocess.PIPE)
        precedence.put_first(process.pid, precedence.STEERING, precedence.STEERING)
        return process, popen

    def _join_controller(self, process: Process, popen: subprocess.Popen[bytes]) -> None:
        try:
            self._network.connect(wait_listening(popen))
            with ControllerClient(self.state / "controller.sock") as client:
                client.wait_ready(CONTROLLER_READY_S)
        except RingroadError:
            if not process.alive:
                raise ProcessDied(process) from None
            raise
        self._supervised.append(process)
        self.controller = ControllerClient(self.state / "controller.sock")
        self._undo.append(self.controller.close)
        if self._controller_settings is not None and self._controller_settings.capacity == "feed":
            self._start_feed()

        if self._controller_settings is not None and self._controller_settings.http_port is not None:
            self._start_truth()

    def _start_truth(self) -> None:
        """Its metrics show what is true beside what it knows; it decides by the latter."""
        client = ControllerClient(self.state / "controller.sock")
        self._undo.append(client.close)
        self._truth = Feed(FeedSettings(), lambda rates, _: client.true_capacity(rates))
        self._undo.append(self._truth.close)
        self._truth.tell({edge: properties.rate_bps for edge, properties in self._wanted.items()}, time.monotonic())

    def _start_feed(self) -> None:
        for_feed = ControllerClient(self.state / "controller.sock")
        self._undo.append(for_feed.close)
        self._feed = Feed(self._feed_settings, for_feed.capacity)
        self._undo.append(self._feed.close)

    def _supervise(self) -> None:
        """The switches, and what holds the namespace of each site. The controller is supervised from its start on."""
        self._supervised += openvswitch.daemons()
        for site, pid in ((site, dc.netns_pid) for site, dc in self._dcs.items()):
            self._supervised.append(Process(f"the shell of {site}", pid, start_ticks(pid) or 0))

    def _take_down(self) -> None:
        with deferred_signals():
            atexit.unregister(self._take_down)
            while self._undo:
                try:
                    self._undo.pop()()
                except Exception as error:
                    log.warning("taking down run %s: %s", self.run_id, error)
                    self._left_something = True
            self._supervised.clear()

    def _forget(self) -> None:
        """The state folder goes last; it stays where something was left, for that is how clean-up learns of it."""
        if self._left_something:
            log.warning("something of run %s is left: ringroad clean removes it", self.run_id)
        else:
            state.remove_state_folder(self.state)

    def _set_link(self, link: Link, up: bool) -> None:
        for edge in link.edges:
            self._netlink.link("set", index=self._indexes[edge], state="up" if up else "down")

    def _link_status(self, edge: Edge, queues: Mapping[Edge, QueueStatus]) -> LinkStatus:
        queue = queues[edge]
        return LinkStatus(
            edge=edge,
            link=self.wan.link(edge).name,
            properties=queue.properties,
            up=interfaces.is_up(self.plan.ports[edge].interface),
            blackholed=edge in self._blackholed,
            sent_bytes=queue.sent_bytes,
            backlog_bytes=queue.backlog_bytes,
            queue_drops=queue.drops,
        )

    def _note_what_is_missing(self, wanted: Mapping[Edge, EdgeProperties]) -> None:
        asked = any(getattr(properties, name) for name in IMPAIRMENTS for properties in wanted.values())
        note = "this kernel has no netem: links have their rates, but neither delay, jitter, loss nor reordering"
        if asked and not self.capabilities.netem:
            self._note(note)

    def _note(self, note: str) -> None:
        """Say something about this testbed once on the log, and in every result."""
        if note not in self.notes:
            self.notes.append(note)
            log.warning("%s", note)
