"""A finished run as the page plays it: from the lines in its folder to events by time. Times count from an arm's start.

Load on links is not in a run folder: the page computes it from the ring and the routes, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controller.tunnels import plan_tunnels
from testbed.live.web import events
from testbed.live.web.events import Event, Numbers
from testbed.report.damage import damage_told
from testbed.report.records import ROUTINE_CAUSES, ArmRun, read_runs
from testbed.runfolder import GATE, MANIFEST, RunFolder
from topologies.codec import wan_from_json
from topologies.errors import InputError

Record = dict[str, Any]


class Recording:
    """A run folder, read once. What is added to it later is not seen."""

    def __init__(self, folder: RunFolder) -> None:
        """InputError if nothing was measured yet, RingroadError if a file is damaged."""
        self._folder = folder
        with damage_told(folder.path):
            manifest = folder.read_json(MANIFEST)
            self._experiment: Record = manifest["experiment"]
            self._labels = list(manifest.get("labels", ()))
            self.wan = wan_from_json(self._experiment["wan"])
            self._numbers = Numbers(self.wan)
            self._runs = [run for run in read_runs(folder) if run.collectives]
            self._scene = self._read_scene() if self._runs else {}
        if not self._runs:
            raise InputError(
                "no collective was measured in this run",
                value=str(folder.path),
                remedy="give the folder of a run that came further, or wait until this one has",
            )

    @property
    def name(self) -> str:
        """Of the experiment."""
        return str(self._experiment["name"])

    @property
    def blocks(self) -> list[int]:
        """Those that have an arm with collectives, in order."""
        return sorted({run.block for run in self._runs})

    def scene(self) -> dict[str, Any]:
        """The scene of `events.scene`, with what there is to choose from."""
        return self._scene

    def _read_scene(self) -> dict[str, Any]:
        return events.scene(
            self.wan,
            mode="run",
            title=self.name,
            subtitle=f"{self.wan.name}, blocks: {len(self.blocks)}, arms: {len({run.arm for run in self._runs})}",
            labels=self._labels,
            doubt=self._doubt(),
            blocks=self.blocks,
            size_bytes=self._experiment["size_bytes"],
        )

    def _doubt(self) -> str:
        """Why the run is not to be trusted, as its gate and its arms say; empty where they say nothing."""
        verdicts = [self._folder.read_json(GATE), *(line.get("verdict") for line in self._folder.read_arms())]
        doubted = [verdict for verdict in verdicts if verdict and not verdict.get("trustworthy", True)]
        return "; ".join(
            dict.fromkeys(reason for each in doubted for reason in each.get("reasons", ["not trustworthy"]))
        )

    def block(self, number: int) -> dict[str, Any]:
        """All arms of one block, each with its events by time.

        KeyError if there is no such block, RingroadError if its files are damaged.
        """
        if number not in self.blocks:
            raise KeyError(number)
        with damage_told(self._folder.path):
            listed = [run for run in self._runs if run.block == number]
            order = list(self._experiment["arms"])
            listed.sort(key=lambda run: order.index(run.arm) if run.arm in order else len(order))
            return {"block": number, "arms": [self._arm(run) for run in listed]}

    def _arm(self, run: ArmRun) -> dict[str, Any]:
        later = sorted(self._later(run), key=lambda event: event["at"])
        return {
            "arm": run.arm,
            "finished": run.finished,
            "length_s": run.collectives[-1].end - run.started_at,
            "events": [*self._first(run), *later],
        }

    def _first(self, run: ArmRun) -> Iterator[Event]:
        """How the arm began: the WAN's own rates, shortest paths, the ring of the first collective."""
        arm = self._experiment["arms"].get(run.arm, {})
        rates = {self._numbers.edges[edge]: (each.rate_bps, events.UP) for edge, each in self.wan.edges.items()}
        routes = {pair: tunnels[0].route for pair, tunnels in plan_tunnels(self.wan, 1).tunnels.items()}
        for record in reversed(self._folder.read(run.block, run.arm, "reconfigurations")):
            routes |= {(move["pair"][0], move["pair"][1]): tuple(move["from"]) for move in record["moves"]}
        moves = [
            (self._numbers.sites[a], self._numbers.sites[b], self._numbers.route(route))
            for (a, b), route in routes.items()
            if a in self.wan.dcs and b in self.wan.dcs
        ]
        first = next(iter(self._folder.read(run.block, run.arm, "collectives")), {})
        yield events.at_first(events.edges(0.0, rates))
        yield events.at_first(events.routes(0.0, moves))
        yield events.at_first(events.ring(0.0, self._order(first.get("order", range(len(self.wan.dcs))))))
        yield events.at_first(
            events.settings(
                0.0,
                arm=run.arm,
                reorder_every=arm.get("reorder_every", 0),
                t_wan_s=self._experiment.get("controller", {}).get("period_s"),
            )
        )

    def _later(self, run: ArmRun) -> Iterator[Event]:
        yield from self._links(run)
        for each in run.collectives:
            yield events.collective(each.end - run.started_at, each.duration_s, each.limit_s, run.arm)
        for record in self._folder.read(run.block, run.arm, "reconfigurations"):
            yield self._reconfiguration(run, record)
        for record in self._folder.read(run.block, run.arm, "ring_changes"):
            if "to" in record:
                yield self._ring_change(run, record)

    def _ring_change(self, run: ArmRun, record: Record) -> Event:
        event = events.ring(
            record["ended_at"] - run.started_at,
            self._order(record["to"]),
            changed=bool(record["changed"]),
            took_s=record["ended_at"] - record["started_at"],
        )
        order = " → ".join(self.wan.dcs[rank] for rank in record["to"])
        return events.said(event, f"ring {'is now' if record['changed'] else 'stays'} {order}")

    def _links(self, run: ArmRun) -> Iterator[Event]:
        """Rates and faults together: an edge that heals has the rate that it was given meanwhile."""
        rates = {edge: properties.rate_bps for edge, properties in self.wan.edges.items()}
        states = dict.fromkeys(rates, events.UP)
        kept = [*self._folder.read(run.block, run.arm, "changes"), *self._folder.read(run.block, run.arm, "faults")]
        for record in sorted(kept, key=lambda record: record["applied_at"]):
            at = max(0.0, record["applied_at"] - run.started_at)
            if record.get("state") == "crash":
                yield events.note(at, f"the worker in {record['dc']} is killed", "fault")
                continue
            if "rates" in record:
                changed = {(a, b): rate_bps for a, b, rate_bps in record["rates"]}
                rates |= changed
            else:
                changed = dict.fromkeys(self.wan.link(record["link"]).edges)
                states |= dict.fromkeys(changed, record["state"])
            text, tone = _link_text(record)
            event = events.edges(at, {self._numbers.edges[edge]: (rates[edge], states[edge]) for edge in changed})
            yield events.at_first(event) if record["planned_s"] <= 0 else events.said(event, text, tone)

    def _reconfiguration(self, run: ArmRun, record: Record) -> Event:
        installed_at = record["installed_at"]
        event = events.routes(
            (installed_at if installed_at is not None else record["decided_at"]) - run.started_at,
            [
                (
                    self._numbers.sites[move["pair"][0]],
                    self._numbers.sites[move["pair"][1]],
                    self._numbers.route(move["to"]),
                )
                for move in record["moves"]
            ],
            record["cause"],
            None if installed_at is None else installed_at - record["happened_at"],
        )
        if record["cause"] in ROUTINE_CAUSES or not record["moves"]:
            return events.at_first(event)
        return events.said(event, events.moved_text([(m["from"], m["to"]) for m in record["moves"]], record["cause"]))

    def _order(self, ranks: Any) -> list[int]:
        return [self._numbers.sites[self.wan.dcs[rank]] for rank in ranks]


def _link_text(record: Record) -> tuple[str, str]:
    """A line for the log, and its tone."""
    if "rates" in record:
        count = len(record["rates"])
        return f"the trace changes {count} {'direction' if count == 1 else 'directions'} of links", "info"
    words = {
        events.UP: "is up again",
        events.DOWN: "goes down, and its switches see it",
        events.BLACKHOLE: "lets nothing through, and looks healthy",
    }
    return f"{record['link']} {words[record['state']]}", "heal" if record["state"] == events.UP else "fault"
