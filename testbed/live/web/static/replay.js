// A finished run: events by time, a slider, and the state at any moment, made by applying all that came before.

import { byId, html } from "./dom.js";

const TICK_MS = 100;

export class Replay {
  // `onArm` is called when another arm or block is shown.
  constructor(store, onArm) {
    this.store = store;
    this.onArm = onArm;
    this.at = 0;
    this.applied = 0;
    this.playing = null;
    this.arms = [];
    this.arm = null;
    byId("block").replaceChildren(...store.scene.blocks.map((block) => html("option", { value: block }, block)));
    byId("block").addEventListener("change", () => this.load(Number(byId("block").value)));
    byId("time").addEventListener("input", () => { this.pause(); this.seek(Number(byId("time").value)); });
    byId("play").addEventListener("click", () => (this.playing ? this.pause() : this.play()));
    document.addEventListener("keydown", (event) => {
      if (event.key === " " && event.target === document.body) { event.preventDefault(); byId("play").click(); }
    });
  }

  async load(block) {
    const answer = await fetch(`recording?block=${block}`);
    if (!answer.ok) {
      const { error } = await answer.json();
      throw new Error(`the recording of block ${block} cannot be had: ${error}`);
    }
    this.arms = (await answer.json()).arms;
    this.block = block;
    this.merged = this.arms
      .flatMap(({ arm, events }) => events.filter(({ kind }) => kind === "collective").map((each) => ({ ...each, arm })))
      .sort((a, b) => a.at - b.at);
    this.length = Math.max(...this.arms.map(({ length_s }) => length_s));
    byId("time").max = this.length.toFixed(2);
    this.show(this.arms.some(({ arm }) => arm === this.arm?.arm) ? this.arm.arm : this.arms.at(-1).arm);
  }

  show(name) {
    this.arm = this.arms.find(({ arm }) => arm === name);
    this.courses = this.store.edges.map(() => []);
    for (const event of this.arm.events) {
      if (event.kind !== "edges") continue;
      for (const [edge, rate, state] of event.set) this.courses[edge].push([event.at, state === "up" ? rate : 0]);
    }
    this.restart();
    this.seek(Math.min(this.at, this.length));
    this.onArm();
  }

  restart() {
    this.store.reset();
    this.applied = 0;
  }

  seek(at) {
    if (at < this.at) this.restart();
    this.at = at;
    const { events } = this.arm;
    let until = this.applied;
    while (until < events.length && events[until].at <= at) until += 1;
    const due = events.slice(this.applied, until);
    this.applied = until;
    this.store.apply([...due, this.loadNow()]);
    byId("time").value = at;
    byId("time").setAttribute("aria-valuetext", `${at.toFixed(1)} seconds`);
    byId("clock").textContent = `${at.toFixed(1)} of ${this.length.toFixed(1)} s`;
  }

  // What links carry follows from the ring, the paths and how long the collective at this moment took.
  loadNow() {
    const zeros = this.store.edges.map(() => 0);
    const running = this.arm.events.find(({ kind, at, took_s }) => kind === "collective" && at > this.at && at - took_s <= this.at);
    const { size_bytes, dcs } = this.store.scene;
    return () => {
      const each = running ? ((dcs.length - 1) * 8 * size_bytes) / running.took_s : 0;
      return { kind: "carried", at: this.at, load_bps: this.store.ringUse().map((count) => count * each), queue_bytes: zeros, drops: zeros };
    };
  }

  play() {
    if (this.at >= this.length) this.seek(0);
    byId("play").textContent = "❚❚";
    this.playing = setInterval(() => {
      const next = this.at + (TICK_MS / 1000) * Number(byId("speed").value);
      this.seek(Math.min(next, this.length));
      if (next >= this.length) this.pause();
    }, TICK_MS);
  }

  pause() {
    clearInterval(this.playing);
    this.playing = null;
    byId("play").textContent = "▶";
  }
}

// What plots ask of a finished run: all arms of the block at once, and where the slider is.
export class ReplayView {
  constructor(store, replay) {
    Object.assign(this, { store, replay, broken: false });
  }

  range() { return [0, this.replay.length ?? 1]; }

  origin() { return 0; }

  end() { return this.replay.arm ? this.replay.arm.length_s : 1; }

  cursor() { return this.replay.at; }

  collectives() {
    const shown = this.replay.arm?.arm;
    return (this.replay.merged ?? []).map((each) => ({ ...each, limit_s: each.arm === shown ? each.limit_s : undefined }));
  }

  latest() { return this.store.collectives.at(-1); }

  capacity(edge) { return this.replay.courses?.[edge] ?? []; }

  seek(at) {
    this.replay.pause();
    this.replay.seek(Math.max(0, Math.min(at, this.replay.length)));
  }
}
