"""What can be asked of a live testbed: one model per verb, with the units that people write.

The same models check what comes over the socket and what stands in a scenario. Names of links and DCs are looked up by
whoever carries a request out; here only the shape is checked. Knows no socket.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from topologies.errors import Fault, InputError, did_you_mean
from topologies.fields import Duration, PositiveDuration, Probability, Rate, Strict
from topologies.wording import faults_of

MAX_NAME = 300
ARMS = ("static", "wan", "ccl", "joint")

ShortText = Annotated[str, Field(max_length=MAX_NAME)]
LinkName = ShortText | Annotated[list[ShortText], Field(min_length=2, max_length=2)]
"""A link by its name, by `a-b`, or by its two sites as a list."""
DcName = ShortText


class Request(Strict):
    """One thing asked for. Those with `changes` change the testbed and are answered by `Done`."""

    changes: ClassVar[bool] = True


class Fail(Request):
    """Take a link down at both ends: its switches see it."""

    op: Literal["fail"]
    link: LinkName


class Heal(Request):
    """End fail, blackhole, flap and isolate: of a link, of all links of a site, or of all."""

    op: Literal["heal"]
    link: LinkName | None = None
    site: ShortText | None = None

    @model_validator(mode="after")
    def _one_target(self) -> Heal:
        if self.link is not None and self.site is not None:
            raise ValueError("either a link or a site is healed; leave one of them out")
        return self


class Blackhole(Request):
    """Let nothing pass a link, both ways, while it looks healthy."""

    op: Literal["blackhole"]
    link: LinkName


class Shape(Request):
    """Change what a link does to packets; what is not given stays. `one_way`: only from one site to the other."""

    op: Literal["shape"]
    link: LinkName
    rate: Rate | None = None
    delay: Duration | None = None
    jitter: Duration | None = None
    loss: Probability | None = None
    one_way: Annotated[list[ShortText], Field(min_length=2, max_length=2)] | None = None

    @model_validator(mode="after")
    def _something(self) -> Shape:
        if self.rate is None and self.delay is None and self.jitter is None and self.loss is None:
            raise ValueError("this changes nothing; give a rate, delay, jitter or loss")
        return self


class Flap(Request):
    """Take a link down and up again, half of each period, until `for` is over or it is healed."""

    op: Literal["flap"]
    link: LinkName
    period: Annotated[PositiveDuration, Field(ge=0.1)] = 2.0
    duration: PositiveDuration = Field(default=30.0, alias="for")


class Crash(Request):
    """Kill the worker of a DC."""

    op: Literal["crash"]
    dc: DcName


class Restart(Request):
    """Bring the worker of a DC back."""

    op: Literal["restart"]
    dc: DcName


class Isolate(Request):
    """Take down every link of a DC."""

    op: Literal["isolate"]
    dc: DcName


class Arm(Request):
    """Which loops act: static, wan, ccl or joint."""

    op: Literal["arm"]
    arm: Literal["static", "wan", "ccl", "joint"]


class Reorder(Request):
    """The ring agent's N: it decides before every N-th collective; 0: never."""

    op: Literal["reorder"]
    every: Annotated[int, Field(strict=True, ge=0, le=1_000_000)]


class RingOrder(Request):
    """Pin the order of the ring; without one, give it back to the agent."""

    op: Literal["ring"]
    order: Annotated[list[DcName], Field(min_length=2, max_length=999)] | None = None


class TWan(Request):
    """How often the WAN controller looks when nothing has happened."""

    op: Literal["t_wan"]
    period: Annotated[PositiveDuration, Field(ge=0.01, le=86400)]


class Trace(Request):
    """Start the trace (another one if `trace` gives it, see `tracing`), or stop it: links keep the rates they have."""

    op: Literal["trace"]
    action: Literal["start", "stop"]
    trace: dict[str, Any] | Annotated[str, Field(max_length=4096)] | None = None


class Dashboard(Request):
    """Where the testbed's own dashboard is; without an address, that it has died. For who started it."""

    op: Literal["dashboard"]
    address: ShortText | None = None


class Down(Request):
    """Take the testbed down."""

    op: Literal["down"]


class Snapshot(Request):
    """All that is known now."""

    changes: ClassVar[bool] = False
    op: Literal["snapshot"]


class Subscribe(Request):
    """A snapshot, and from then on every event, on this connection."""

    changes: ClassVar[bool] = False
    op: Literal["subscribe"]


class Names(Request):
    """The names of sites, DCs and links: for completion."""

    changes: ClassVar[bool] = False
    op: Literal["names"]


class Where(Request):
    """Where a link or a site is on this machine."""

    changes: ClassVar[bool] = False
    op: Literal["where"]
    link: LinkName | None = None
    site: ShortText | None = None

    @model_validator(mode="after")
    def _one_target(self) -> Where:
        if (self.link is None) == (self.site is None):
            raise ValueError("either a link or a site is looked for; give one of them")
        return self


class Check(Request):
    """Would this request be carried out? Nothing is."""

    changes: ClassVar[bool] = False
    op: Literal["check"]
    request: dict[str, Any]


Change = Annotated[
    Fail | Heal | Blackhole | Shape | Flap | Crash | Restart | Isolate | Arm | Reorder | RingOrder | TWan | Trace,
    Field(discriminator="op"),
]
"""What a person, a scenario or the dashboard can change."""

KINDS: dict[str, type[Request]] = {
    kind.model_fields["op"].annotation.__args__[0]: kind  # type: ignore[union-attr]
    for kind in (
        *(Fail, Heal, Blackhole, Shape, Flap, Crash, Restart, Isolate, Arm, Reorder, RingOrder, TWan, Trace),
        *(Dashboard, Down, Snapshot, Subscribe, Names, Where, Check),
    )
}
"""Every request by its `op`."""

CHANGE: TypeAdapter[Any] = TypeAdapter(Change)


def read_request(plain: dict[str, Any]) -> Request:
    """The request that a JSON object asks for. InputError says what is wrong with it."""
    op = plain.get("op")
    kind = KINDS.get(op) if isinstance(op, str) else None
    if kind is None:
        known = list(KINDS)
        remedy = did_you_mean(op[:MAX_NAME], known) if isinstance(op, str) else f"give op: {', '.join(known)}"
        raise InputError("no such request", place="op", value=op, remedy=remedy)
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        faults = faults_of(error, plain, kind) or [Fault((), "this is no such request")]
        raise faults[0].error(op) from error
