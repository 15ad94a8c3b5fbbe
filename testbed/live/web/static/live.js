// A running testbed: listens to what happens, and asks for changes. Reconnects by itself.

export class Live {
  constructor(store, onState) {
    this.store = store;
    this.onState = onState;
    this.version = -1;
    this.offset = null;
    this.received = 0;
    this.connect();
  }

  connect() {
    this.source = new EventSource("events");
    this.source.addEventListener("snapshot", (message) => {
      const { version, events, now } = JSON.parse(message.data);
      this.offset = now - performance.now() / 1000;
      this.store.reset();
      this.store.now = now;
      this.take(version, events);
      this.onState("live");
    });
    this.source.addEventListener("changes", (message) => {
      const { version, events } = JSON.parse(message.data);
      for (const { at } of events) this.offset = Math.max(this.offset, at - performance.now() / 1000);
      this.take(version, events);
    });
    this.source.addEventListener("down", () => {
      this.source.close();
      this.onState("down");
    });
    this.source.addEventListener("error", () => this.onState(this.source.readyState === EventSource.CLOSED ? "closed" : "lost"));
  }

  take(version, events) {
    this.version = version;
    this.received += events.length;
    this.store.apply(events);
  }

  // Seconds on the testbed's clock.
  now() { return this.offset === null ? 0 : this.offset + performance.now() / 1000; }

  // Resolves once the testbed has done it; rejects with its reason.
  async act(request) {
    const reply = await fetch("change", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
    const answer = await reply.json().catch(() => ({ error: `the dashboard answered ${reply.status}` }));
    if (!reply.ok) throw new Error(answer.remedy ? `${answer.error}: ${answer.remedy}` : answer.error);
    return answer;
  }
}

const SHORTEST_S = 30;

// What plots ask of a running testbed.
export class LiveView {
  constructor(store, live, span) {
    Object.assign(this, { store, live, span, broken: true });
  }

  range() {
    const now = this.live.now();
    const from = Math.max(now - this.span, this.origin());
    return [from, Math.max(now, from + SHORTEST_S)];
  }

  origin() { return this.store.scene.began_at; }

  end() { return this.live.now(); }

  cursor() { return null; }

  collectives() {
    const [from] = this.range();
    return this.store.collectives.filter(({ at }) => at >= from - 5);
  }

  latest() { return this.store.collectives.at(-1); }

  capacity(edge) { return this.store.capacity[edge]; }
}
