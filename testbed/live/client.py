"""How to talk to a running live testbed: the same requests as every verb of the command line makes.

    with Client() as testbed:
        testbed.fail("tokyo-oregon")
        print(testbed.snapshot().ring.order)

Imports nothing heavy, so that a verb is done in a moment.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from testbed.emulation.state import STATE_ROOT, last_end, owners
from testbed.live.protocol import SOCKET, STARTING, Done, Event, Place, Snapshot, event_from_json, from_json
from topologies import wire
from topologies.errors import InputError, RingroadError

TIMEOUT_S = 60.0
"""For a reply. The slowest change, of the arm, waits until all switches have confirmed."""

NONE = "no live testbed runs on this machine"

LinkRef = str | Sequence[str]
"""A link: its name, `a-b`, or (a, b)."""


class NoTestbed(RingroadError):
    """No live testbed runs on this machine."""

    def __init__(self, why: str = NONE, remedy: str = "bring one up: ringroad up mesh4 --workers --detach") -> None:
        super().__init__(why, remedy)


def find_socket() -> Path:
    """The control socket of the testbed that runs. NoTestbed if none does; RingroadError without root."""
    if os.geteuid() != 0:
        raise RingroadError("only root can reach the testbed", "run it as root: sudo .venv/bin/ringroad …")
    sockets = {STATE_ROOT / run_id / SOCKET: owner for run_id, owner in owners().items()}
    names = (SOCKET, STARTING)
    found = [
        (path, owner is not None and owner.alive)
        for path, owner in sockets.items()
        if any(path.with_name(name).exists() for name in names)
    ]
    for path, alive in found:
        if alive and path.exists():
            return path
    for path, alive in found:
        if alive:
            raise NoTestbed(f"a testbed is coming up, run {path.parent.name}", "wait until ringroad up says that it is")
    if found:
        raise RingroadError("the testbed that ran here was killed", "remove what is left of it: ringroad clean")
    ended = last_end()
    raise NoTestbed(f"{NONE}; {ended}") if ended else NoTestbed


class Client:
    """One connection to a live testbed. Not thread-safe: one client, one thread.

    Every method that changes something returns what it did, once it is done. They raise InputError for a name that
    does not exist (with the nearest one), RingroadError for what cannot be done now, NoTestbed when it is gone.
    """

    def __init__(self, path: Path | None = None, timeout_s: float | None = TIMEOUT_S) -> None:
        """`path` is a control socket; without it, that of the testbed that runs on this machine."""
        self.path = path or find_socket()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(timeout_s)
        try:
            self._connection.connect(os.fspath(self.path))
        except OSError as error:
            self._connection.close()
            raise NoTestbed(f"nobody answers at {self.path}: {error.strerror or error}") from error
        self._messages = wire.messages(self._connection)

    @property
    def pid(self) -> int:
        """The process at the other end."""
        peer = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", peer)[0]

    def ask(self, op: str, /, **fields: Any) -> dict[str, Any]:
        """Any request of the protocol as it is; its reply as it is."""
        request = {"op": op, **{name: value for name, value in fields.items() if value is not None}}
        try:
            with suppress(wire.ConnectionLost):  # It may have said why, before it closed.
                wire.send(self._connection, request)
            reply = next(self._messages, None)
        except TimeoutError as error:
            raise RingroadError(f"the testbed has not answered {op!r} in time", "ringroad status") from error
        except (OSError, wire.WireError) as error:
            raise NoTestbed(f"the testbed is gone: {error}") from error
        if reply is None:
            raise NoTestbed("the testbed has closed the connection instead of answering")
        if "refused" in reply:
            raise _refusal(reply["refused"])
        return reply

    def snapshot(self) -> Snapshot:
        """All that is known now."""
        return from_json(Snapshot, self.ask("snapshot"))

    def subscribe(self) -> tuple[Snapshot, Iterator[Event]]:
        """All that is known now, and every event from then on; the iterator blocks, and ends with the testbed.

        From then on this client asks nothing else. Whoever reads too slowly is cut off.
        """
        plain, events = self.subscribe_raw()
        return from_json(Snapshot, plain), (known for each in events if (known := event_from_json(each)) is not None)

    def subscribe_raw(self) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        """As `subscribe`, in JSON: for who passes it on."""
        snapshot = self.ask("subscribe")
        self._connection.settimeout(None)
        return snapshot, self._events()

    def _events(self) -> Iterator[dict[str, Any]]:
        with suppress(OSError):
            yield from self._messages

    def names(self) -> dict[str, list[str]]:
        """`sites`, `dcs` and `links` by name."""
        return self.ask("names")

    def where(self, *, link: LinkRef | None = None, site: str | None = None) -> Place:
        """Where a link (the end at its first site) or a site is on this machine."""
        return from_json(Place, self.ask("where", link=_link(link), site=site))

    def check(self, op: str, /, **fields: Any) -> None:
        """Raises what the request would; changes nothing."""
        self.ask("check", request={"op": op, **fields})

    def change(self, op: str, /, **fields: Any) -> Done:
        """Any request that changes something."""
        return from_json(Done, self.ask(op, **fields))

    def fail(self, link: LinkRef) -> Done:
        """Take a link down at both ends."""
        return self.change("fail", link=_link(link))

    def heal(self, link: LinkRef | None = None, *, site: str | None = None) -> Done:
        """End fail, blackhole, flap and isolate: of a link, of a site's links, or of all."""
        return self.change("heal", link=_link(link), site=site)

    def blackhole(self, link: LinkRef) -> Done:
        """Let nothing pass a link that looks healthy."""
        return self.change("blackhole", link=_link(link))

    def shape(
        self,
        link: LinkRef,
        *,
        rate_bps: float | None = None,
        delay_s: float | None = None,
        jitter_s: float | None = None,
        loss: float | None = None,
        one_way: tuple[str, str] | None = None,
    ) -> Done:
        """Change what a link does to packets, both ways or `one_way` (from, to); None keeps."""
        direction = None if one_way is None else list(one_way)
        return self.change(
            "shape", link=_link(link), rate=rate_bps, delay=delay_s, jitter=jitter_s, loss=loss, one_way=direction
        )

    def flap(self, link: LinkRef, *, period_s: float = 2.0, for_s: float = 30.0) -> Done:
        """Take a link down and up, half of each period, for so long. Returns at once."""
        return self.change("flap", link=_link(link), period=period_s, **{"for": for_s})

    def crash(self, dc: str) -> Done:
        """Kill the worker of a DC."""
        return self.change("crash", dc=dc)

    def restart(self, dc: str) -> Done:
        """Bring the worker of a DC back."""
        return self.change("restart", dc=dc)

    def isolate(self, dc: str) -> Done:
        """Take down every link of a DC."""
        return self.change("isolate", dc=dc)

    def arm(self, arm: str) -> Done:
        """static, wan, ccl or joint, from now on."""
        return self.change("arm", arm=arm)

    def reorder(self, every: int) -> Done:
        """N: the ring agent decides before every N-th collective; 0: never."""
        return self.change("reorder", every=every)

    def ring(self, order: Sequence[str] | None) -> Done:
        """Pin the order of the ring, every DC once; None gives it back to the agent."""
        return self.change("ring", order=None if order is None else list(order))

    def t_wan(self, period_s: float) -> Done:
        """How often the WAN controller looks when nothing has happened."""
        return self.change("t_wan", period=period_s)

    def start_trace(self, trace: dict[str, Any] | str | None = None) -> Done:
        """Play a trace: as in an experiment file, or the path of a file; None: the one that was given before."""
        return self.change("trace", action="start", trace=trace)

    def stop_trace(self) -> Done:
        """Play it no more; links keep the rates they have."""
        return self.change("trace", action="stop")

    def down(self) -> Done:
        """Take the testbed down. Returns when it has begun to."""
        return self.change("down")

    def give_up(self) -> None:
        """From any thread: whoever waits for an answer or an event waits no more."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _link(link: LinkRef | None) -> str | list[str] | None:
    return link if link is None or isinstance(link, str) else list(link)


def _refusal(refused: dict[str, Any]) -> RingroadError:
    kind = InputError if refused.get("exit_code") == InputError.exit_code else RingroadError
    error = kind(refused["message"], remedy=refused.get("remedy", ""))
    error.exit_code = refused.get("exit_code", RingroadError.exit_code)
    return error
