// What a person looks at or acts on: tips under the pointer, the card of a link, the path of a pair.

import { byId, html } from "./dom.js";
import { bytes, rate, rateOf } from "./format.js";
import { linkRows } from "./map.js";

const SLIDER_STEPS = 200;
const LOWEST_SHARE = 0.02;
const HIGHEST_SHARE = 2;

// A slider's place to a share of a link's own rate and back: even steps of ratio.
const shareAt = (place) => LOWEST_SHARE * (HIGHEST_SHARE / LOWEST_SHARE) ** (place / SLIDER_STEPS);
const placeOf = (share) => Math.round((SLIDER_STEPS * Math.log(Math.max(share, LOWEST_SHARE) / LOWEST_SHARE)) / Math.log(HIGHEST_SHARE / LOWEST_SHARE));

export class Tip {
  constructor(store) {
    this.store = store;
    this.box = byId("tip");
  }

  show(content, event) {
    this.box.replaceChildren(...content);
    this.box.hidden = false;
    const card = this.box.parentElement.getBoundingClientRect();
    const left = Math.min(event.clientX - card.left + 16, card.width - this.box.offsetWidth - 8);
    const below = event.clientY - card.top + 18;
    const top = below + this.box.offsetHeight > card.height - 8 ? event.clientY - card.top - this.box.offsetHeight - 12 : below;
    this.box.style.left = `${Math.max(8, left)}px`;
    this.box.style.top = `${Math.max(8, top)}px`;
  }

  link(number, event, measured) {
    const rows = linkRows(this.store, number).map((row) => html("tr", {}, html("td", {}, `→ ${row.to}`), html("td", {}, row.state === "up" ? rateOf(row.load, row.rate) : row.state), html("td", {}, row.state === "up" ? row.used : ""), html("td", {}, row.ring ? `ring ×${row.ring}` : "")));
    const crossing = pairsOver(this.store, number);
    this.show([
      html("b", {}, this.store.scene.links[number].name), html("table", {}, ...rows),
      html("span", {}, `${crossing} pairs take it${measured ? "" : "; load computed from ring and paths"}`),
    ], event);
  }

  site(number, event) {
    const place = this.store.ring.indexOf(number);
    const next = place >= 0 ? this.store.siteName(this.store.ring[(place + 1) % this.store.ring.length]) : null;
    this.show([html("b", {}, this.store.siteName(number)), html("span", {}, next ? `place ${place + 1} in the ring, sends to ${next}` : "forwards only")], event);
  }

  hide() { this.box.hidden = true; }
}

function pairsOver(store, link) {
  let count = 0;
  for (const route of store.routes.values()) if (store.edgesOf(route).some((edge) => edge >> 1 === link)) count += 1;
  return count;
}

export class PairPicker {
  constructor(store, map) {
    this.store = store;
    this.map = map;
    this.from = byId("pair-from");
    this.to = byId("pair-to");
    const options = () => [html("option", { value: "" }, "–"), ...store.scene.dcs.map((dc) => html("option", { value: dc }, store.siteName(dc)))];
    this.from.replaceChildren(...options());
    this.to.replaceChildren(...options());
    for (const select of [this.from, this.to]) select.addEventListener("change", () => this.update());
    store.listen((changed) => { if (changed.has("routes")) this.write(); });
  }

  get pair() { return [this.from, this.to].map((select) => (select.value === "" ? null : Number(select.value))); }

  // A click on a site: the first is where the path starts, the second where it ends.
  site(number) {
    const [from, to] = this.pair;
    if (from === null || to !== null || from === number) [this.from.value, this.to.value] = from === number && to === null ? ["", ""] : [number, ""];
    else this.to.value = number;
    this.update();
  }

  // What the pointer or the focus is on, while nothing else is said.
  over(number) {
    const [from, to] = this.pair;
    if (from === null) this.map.showPaths(number, null);
    else if (to === null && from !== number) this.map.showPaths(from, number);
    this.write(from ?? number, from === null || from === number ? null : to ?? number);
  }

  out() { this.update(); }

  update() {
    const [from, to] = this.pair;
    if (from === null) this.map.hidePaths();
    else this.map.showPaths(from, to);
    this.write();
  }

  write(from = this.pair[0], to = this.pair[1]) {
    const route = from !== null && to !== null ? this.store.route(from, to) : null;
    byId("pair-path").textContent = route ? route.map((site) => this.store.siteName(site)).join(" → ") : from !== null ? `all paths from ${this.store.siteName(from)}` : "";
  }
}

export class LinkCard {
  // `act(request)` resolves or rejects with a reason; null where nothing can be changed.
  constructor(store, map, capacity, act) {
    Object.assign(this, { store, map, capacity, act, number: null });
    this.box = byId("link-card");
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.close(); });
    store.listen((changed) => { if (this.number !== null && (changed.has("edges") || changed.has("load"))) this.refresh(); });
  }

  open(number) {
    const before = this.number;
    this.close(false);
    if (before === number) return;
    this.number = number;
    this.map.choose(number);
    this.box.hidden = false;
    this.build();
    this.refresh();
    const { x, y, width, height } = this.map.placeOf(number);
    this.box.style.left = `${x > width / 2 ? 12 : Math.max(12, width - this.box.offsetWidth - 12)}px`;
    this.box.style.top = `${y > height / 2 ? 12 : Math.max(12, height - this.box.offsetHeight - 12)}px`;
    this.box.querySelector("button:not(:disabled)")?.focus();
  }

  close(refocus = true) {
    if (this.number === null) return;
    const group = this.map.links[this.number].group;
    this.number = null;
    this.map.choose(null);
    this.box.hidden = true;
    if (refocus) group.focus();
  }

  build() {
    const link = this.store.scene.links[this.number];
    this.tag = html("span", { class: "tag" });
    this.rows = html("tbody");
    this.fault = html("p", { class: "error", hidden: true, role: "alert" });
    const parts = [
      html("h3", { id: "link-name" }, link.name, this.tag, html("button", { type: "button", class: "plain close", "aria-label": "Close", click: () => this.close() }, "✕")),
      html("table", {}, this.rows),
    ];
    if (this.act) parts.push(...this.buildControls(link));
    this.plot = html("button", { type: "button", click: () => { this.capacity.toggle(this.number); this.refresh(); } });
    if (this.act) this.buttons.append(this.plot);
    else parts.push(html("div", { class: "row" }, this.plot));
    parts.push(this.fault);
    this.box.replaceChildren(...parts);
  }

  buildControls(link) {
    const own = this.store.edges[2 * this.number].own;
    this.failButton = html("button", { type: "button", class: "danger", id: "fail", click: () => this.request({ op: "fail", link: link.name }) }, "Fail");
    this.holeButton = html("button", { type: "button", id: "blackhole", click: () => this.request({ op: "blackhole", link: link.name }) }, "Blackhole");
    this.healButton = html("button", { type: "button", class: "good", id: "heal", click: () => this.request({ op: "heal", link: link.name }) }, "Heal");
    this.ways = html("select", { "aria-label": "Direction", change: () => this.placeSlider() }, html("option", { value: "both" }, "both ways"), html("option", { value: 0 }, `→ ${this.store.siteName(link.b)}`), html("option", { value: 1 }, `→ ${this.store.siteName(link.a)}`));
    this.rateText = html("output");
    this.slider = html("input", { type: "range", min: 0, max: SLIDER_STEPS, step: 1, "aria-label": "Rate", id: "rate" });
    let waiting = null;
    this.slider.addEventListener("input", () => {
      const bps = Math.round(own * shareAt(Number(this.slider.value)) / 1e4) * 1e4;
      this.rateText.textContent = rate(bps);
      this.slider.setAttribute("aria-valuetext", rate(bps));
      clearTimeout(waiting);
      waiting = setTimeout(() => this.request({ op: "shape", link: link.name, rate: Math.max(1e4, bps), ...this.oneWay(link) }), 120);
    });
    this.placeSlider();
    this.buttons = html("div", { class: "row" }, this.failButton, this.holeButton, this.healButton);
    return [
      this.buttons,
      html("div", { class: "row" }, html("span", {}, "rate"), this.slider, this.rateText, this.ways),
    ];
  }

  oneWay(link) {
    const names = [link.a, link.b].map((site) => this.store.siteName(site));
    return this.ways.value === "both" ? {} : { one_way: this.ways.value === "1" ? names.reverse() : names };
  }

  placeSlider() {
    const edge = this.store.edges[2 * this.number + (this.ways.value === "1" ? 1 : 0)];
    this.slider.value = placeOf(edge.rate / this.store.edges[2 * this.number].own);
    this.rateText.textContent = rate(edge.rate);
  }

  async request(request) {
    try {
      await this.act(request);
      this.fault.hidden = true;
    } catch (error) {
      this.fault.textContent = error.message;
      this.fault.hidden = false;
    }
  }

  refresh() {
    const rows = linkRows(this.store, this.number);
    const state = rows.find((row) => row.state !== "up")?.state ?? "up";
    this.tag.textContent = state === "blackhole" ? "blackholed" : state;
    this.tag.className = `tag ${state}`;
    this.rows.replaceChildren(...rows.map((row) => html("tr", {}, html("td", {}, `→ ${row.to}`), html("td", {}, row.state === "up" ? rateOf(row.load, row.rate) : "nothing passes"), html("td", {}, this.act ? `queue ${bytes(row.queue)}` : row.used), html("td", {}, this.act ? `${row.drops} drops` : ""))));
    this.plot.textContent = this.capacity.chosen.includes(this.number) ? "Plot no more" : "Plot capacity";
    if (!this.act) return;
    this.failButton.disabled = state === "down";
    this.holeButton.disabled = state !== "up";
    this.healButton.disabled = state === "up";
    if (document.activeElement !== this.slider) this.placeSlider();
  }
}
