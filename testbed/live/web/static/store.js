// What is known now: a scene that stays, and a state that events change. Draws nothing. Its memory is bounded.

const KEPT = { collectives: 2400, log: 250, capacity: 900, marks: 400 };

export const pairKey = (a, b) => `${a},${b}`;

export class Store {
  constructor(scene) {
    this.scene = scene;
    this.listeners = [];
    this.reset();
  }

  // As before the first event.
  reset() {
    const own = this.scene.links.flatMap((link) => link.rates_bps);
    this.now = 0;
    this.edges = own.map((rate) => ({ rate, own: rate, state: "up", load: 0, queue: 0, drops: 0 }));
    this.routes = new Map();
    this.ring = [...this.scene.dcs];
    this.settings = { arm: "static", reorder_every: 0, t_wan_s: null };
    this.workers = { state: "running", crashed: [] };
    this.collectives = [];
    this.marks = [];
    this.capacity = own.map(() => []);
    this.log = [];
    this.dirty = new Set(["edges", "load", "routes", "ring", "settings", "workers", "collectives", "capacity", "log"]);
  }

  // Apply events in order, then tell listeners once what has changed. An event may be a function of the state before it.
  apply(events) {
    for (const each of events) {
      const event = typeof each === "function" ? each() : each;
      if (event.at > this.now) this.now = event.at;
      APPLY[event.kind]?.(this, event);
      if (event.text && !event.first) {
        this.log.push(event);
        this.dirty.add("log");
      }
    }
    for (const [name, limit] of Object.entries({ collectives: KEPT.collectives, log: KEPT.log, marks: KEPT.marks })) {
      if (this[name].length > limit * 1.1) this[name].splice(0, this[name].length - limit);
    }
    this.tell();
  }

  tell() {
    if (!this.dirty.size) return;
    const changed = this.dirty;
    this.dirty = new Set();
    for (const listener of this.listeners) listener(changed);
  }

  listen(listener) { this.listeners.push(listener); }

  // Number of the directed edge from one site to a neighbor, or undefined.
  edge(from, to) {
    if (!this.edgeNumbers) {
      this.edgeNumbers = new Map();
      this.scene.links.forEach((link, number) => {
        this.edgeNumbers.set(pairKey(link.a, link.b), 2 * number);
        this.edgeNumbers.set(pairKey(link.b, link.a), 2 * number + 1);
      });
    }
    return this.edgeNumbers.get(pairKey(from, to));
  }

  route(from, to) { return this.routes.get(pairKey(from, to)); }

  // Directed edges of a route.
  edgesOf(route) { return route.slice(1).map((site, index) => this.edge(route[index], site)).filter((edge) => edge !== undefined); }

  // For each directed edge, how many edges of the ring cross it.
  ringUse() {
    const use = this.edges.map(() => 0);
    this.ring.forEach((site, index) => {
      const route = this.route(site, this.ring[(index + 1) % this.ring.length]);
      for (const edge of route ? this.edgesOf(route) : []) use[edge] += 1;
    });
    return use;
  }

  siteName(number) { return this.scene.sites[number].name; }
}

function edges(store, event) {
  for (const [number, rate, state] of event.set) {
    const edge = store.edges[number];
    Object.assign(edge, { rate, state });
    const points = store.capacity[number];
    points.push([event.at, state === "up" ? rate : 0]);
    if (points.length > KEPT.capacity * 1.1) points.splice(0, points.length - KEPT.capacity);
  }
  store.dirty.add("edges").add("capacity");
}

const APPLY = {
  edges,
  carried(store, event) {
    store.edges.forEach((edge, number) => {
      edge.load = event.load_bps[number];
      edge.queue = event.queue_bytes[number];
      edge.drops = event.drops[number];
    });
    store.dirty.add("load");
  },
  routes(store, event) {
    for (const [from, to, route] of event.moves) store.routes.set(pairKey(from, to), route);
    if (!event.first) store.marks.push({ at: event.at, kind: "routes" });
    store.dirty.add("routes").add("collectives");
  },
  ring(store, event) {
    store.ring = event.order;
    if (!event.first && event.changed) store.marks.push({ at: event.at, kind: "ring" });
    store.dirty.add("ring").add("collectives");
  },
  collective(store, event) {
    store.collectives.push(event);
    store.dirty.add("collectives");
  },
  settings(store, event) {
    for (const name of ["arm", "reorder_every", "t_wan_s", "pinned"]) if (name in event) store.settings[name] = event[name];
    store.dirty.add("settings");
  },
  workers(store, event) {
    store.workers = { state: event.state, crashed: event.crashed, reason: event.reason };
    store.dirty.add("workers");
  },
  note() {},
};
