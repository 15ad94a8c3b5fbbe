// The map: land, links as two lanes each, the ring around them, sites, and the path of a pair on top.

import { arrow, arc, pathOf, placeNames, trimmed } from "./curves.js";
import { armColour, byId, colour, svg } from "./dom.js";
import { rate, share } from "./format.js";

const WIDTH = 1000;
const DOT = 11;

export class WorldMap {
  // `actions`: open(link), site(number), over(target, event), out().
  constructor(store, actions) {
    this.store = store;
    this.actions = actions;
    this.root = byId("map");
    this.widest = Math.max(...store.edges.map((edge) => edge.own));
    this.build();
    store.listen((changed) => this.update(changed));
    this.update(new Set(["edges", "ring", "routes", "load", "settings", "workers"]));
  }

  build() {
    const { scene } = this.store;
    this.root.replaceChildren();
    // Land is a picture of its own beneath, so that it is not painted anew with every load that changes.
    this.land = byId("land");
    this.land.replaceChildren(...(scene.land ? [svg("path", { d: scene.land })] : []));
    [this.under, this.over, this.signs, this.way] = [0, 1, 2, 3].map(() => svg("g", { class: "drawn", "aria-hidden": "true" }));
    this.links = scene.links.map((_, number) => this.buildLink(number));
    this.signs.append(...this.links.map(({ sign }) => sign));
    this.sites = this.buildSites();
    for (const each of [this.land, this.root]) each.setAttribute("viewBox", this.viewBox().map(Math.round).join(" "));
    this.root.append(this.under, ...this.links.map((each) => each.group), this.over, this.signs, this.way, ...this.sites.map((each) => each.group));
  }

  // All sites and arcs, with room for names. What is drawn beyond shows where the card is wider or higher.
  viewBox() {
    const points = [...this.store.scene.sites, ...this.links.flatMap((link) => arc(link.a, link.b, 0, link.centre))];
    const [xs, ys] = [points.map((p) => p.x), points.map((p) => p.y)];
    const left = Math.min(...xs) - 74, top = Math.min(...ys) - 40;
    return [left, top, Math.max(...xs) + 74 - left, Math.max(...ys) + 46 - top];
  }

  buildLink(number) {
    const link = this.store.scene.links[number], a = this.site(link.a), b = this.site(link.b);
    const centre = { x: WIDTH / 2, y: this.store.scene.height / 2 };
    const forward = arc(a, b, 0, centre);
    const middle = forward[forward.length >> 1];
    const lanes = [0, 1].map(() => ({ lane: svg("path", { class: "lane" }), load: svg("path", { class: "load" }) }));
    const group = svg(
      "g",
      {
        class: "link", tabindex: 0, role: "button", "data-link": link.name, "aria-haspopup": "dialog",
        click: () => this.actions.open(number),
        keydown: (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); this.actions.open(number); } },
        pointerenter: (event) => this.actions.over({ link: number }, event),
        pointerleave: () => this.actions.out(),
      },
      ...lanes.flatMap((each) => [each.lane, each.load]),
      svg("path", { class: "hit", d: pathOf(forward) }),
    );
    const sign = svg("g", { class: "broken", transform: `translate(${middle.x.toFixed(1)},${middle.y.toFixed(1)})` }, svg("circle", { r: 11 }), svg("path", { d: "M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5" }));
    return { group, lanes, a, b, centre, middle, sign };
  }

  buildSites() {
    const { scene } = this.store;
    const crossed = this.links.flatMap((link) => arc(link.a, link.b, 0, link.centre));
    const names = placeNames(scene.sites, crossed, this.viewBox());
    return scene.sites.map((site, number) => {
      const dot = site.kind === "dc" ? svg("circle", { class: "dot", r: DOT }) : svg("rect", { class: "dot", x: -6, y: -6, width: 12, height: 12, transform: "rotate(45)" });
      const rank = svg("text", { class: "rank", dy: 0.5 });
      const group = svg(
        "g",
        {
          class: `site ${site.kind}`, tabindex: 0, role: "button", transform: `translate(${site.x},${site.y})`, "data-site": site.name,
          click: () => this.actions.site(number),
          keydown: (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); this.actions.site(number); } },
          focus: () => this.actions.over({ site: number }), blur: () => this.actions.out(),
          pointerenter: (event) => this.actions.over({ site: number }, event),
          pointerleave: () => this.actions.out(),
        },
        dot, rank,
        svg("text", { class: "name", x: names[number].x - site.x, y: names[number].y - site.y, "text-anchor": names[number].anchor }, site.name),
      );
      return { group, rank };
    });
  }

  site(number) { return this.store.scene.sites[number]; }

  update(changed) {
    const any = (...names) => names.some((name) => changed.has(name));
    if (any("settings", "ring")) document.body.style.setProperty("--arm", armColour(this.store.settings.arm));
    if (any("edges")) this.links.forEach((_, number) => this.drawLink(number));
    if (any("edges", "load")) this.drawLoads();
    if (any("edges", "ring", "routes")) this.drawRing();
    if (any("ring", "workers")) this.drawSites();
    if (any("routes") && this.shown) this.showPaths(...this.shown);
  }

  // Widths of the two lanes, by what they can carry now.
  laneWidth(edge) { return 2.5 + 5.5 * Math.sqrt(Math.min(1.5, edge.rate / this.widest)); }

  points(number) {
    const link = this.links[number >> 1], edge = this.store.edges[number];
    const [from, to, sign] = number % 2 ? [link.b, link.a, 1] : [link.a, link.b, 1];
    return arc(from, to, sign * (this.laneWidth(edge) / 2 + 1.6), link.centre);
  }

  drawLink(number) {
    const { group, lanes, sign } = this.links[number];
    const edges = [this.store.edges[2 * number], this.store.edges[2 * number + 1]];
    const state = edges.find((edge) => edge.state !== "up")?.state ?? "up";
    for (const each of [group, sign]) {
      each.classList.toggle("down", state === "down");
      each.classList.toggle("blackhole", state === "blackhole");
    }
    lanes.forEach(({ lane, load }, direction) => {
      const d = pathOf(this.points(2 * number + direction));
      lane.setAttribute("d", d);
      load.setAttribute("d", d);
      lane.setAttribute("stroke-width", this.laneWidth(edges[direction]).toFixed(1));
    });
    const words = { up: "up", down: "down", blackhole: "blackholed" };
    group.setAttribute("aria-label", `link ${this.store.scene.links[number].name}, ${words[state]}, ${rate(edges[0].rate)} and back ${rate(edges[1].rate)}`);
  }

  drawLoads() {
    const steps = [["load-low", 0.6], ["load-mid", 0.9], ["load-high", Infinity]].map(([name, below]) => [colour(name), below]);
    this.links.forEach(({ lanes }, number) => lanes.forEach(({ load }, direction) => {
      const edge = this.store.edges[2 * number + direction];
      const used = edge.rate > 0 ? Math.min(1, edge.load / edge.rate) : 0;
      const width = used < 0.02 ? 0 : Math.round(2 * Math.max(1.4, used * (this.laneWidth(edge) - 1))) / 2;
      const paint = steps.find(([, below]) => used < below)[0];
      if (load.dataset.shown === `${width}${paint}`) return;
      load.dataset.shown = `${width}${paint}`;
      load.style.setProperty("--load", paint);
      load.setAttribute("stroke-width", width);
    }));
  }

  drawRing() {
    const use = this.store.ringUse();
    const under = [], over = [];
    use.forEach((count, number) => {
      if (!count) return;
      const points = this.points(number), link = this.links[number >> 1];
      under.push(svg("path", { class: "ring", d: pathOf(points), "stroke-width": (this.laneWidth(this.store.edges[number]) + 4.4).toFixed(1) }));
      const open = trimmed(points, link.a, link.b, 22);
      for (const at of open.length > 16 ? [0.3, 0.72] : [0.5]) over.push(svg("path", { class: "arrow", d: arrow(open, at, 6.2) }));
      if (count > 1 && open.length > 12) {
        const at = open[Math.round(open.length * 0.5)];
        over.push(svg("text", { class: "count", x: at.x, y: at.y }, `×${count}`));
      }
    });
    this.under.replaceChildren(...under);
    this.over.replaceChildren(...over);
  }

  drawSites() {
    const crashed = new Set(this.store.workers.crashed);
    this.sites.forEach(({ group, rank }, number) => {
      const place = this.store.ring.indexOf(number), name = this.site(number).name;
      rank.textContent = crashed.has(number) ? "✕" : place >= 0 ? place + 1 : "";
      group.classList.toggle("crashed", crashed.has(number));
      group.setAttribute("aria-label", `${name}, ${place >= 0 ? `place ${place + 1} in the ring` : "not in the ring"}${crashed.has(number) ? ", worker crashed" : ""}`);
    });
  }

  // The path from one site to another and back, or from it to all others.
  showPaths(from, to) {
    this.shown = [from, to];
    const others = to === null || to === undefined ? this.store.scene.dcs.filter((dc) => dc !== from) : [to];
    const faint = others.length > 1 ? " faint" : "";
    const drawn = others.map((other) => this.store.route(from, other)).filter(Boolean);
    this.way.replaceChildren(...drawn.flatMap((route) => this.store.edgesOf(route)).map((number) => svg("path", { class: `pathway${faint}`, d: pathOf(this.points(number)) })));
    this.sites.forEach(({ group }, number) => {
      group.classList.toggle("from", number === from);
      group.classList.toggle("to", number === to);
    });
  }

  hidePaths() {
    this.shown = null;
    this.way.replaceChildren();
    for (const { group } of this.sites) group.classList.remove("from", "to");
  }

  choose(number) { this.links.forEach(({ group }, each) => group.classList.toggle("chosen", each === number)); }

  // Where a link is on the page, relative to the map's card.
  placeOf(number) {
    const box = this.root.getBoundingClientRect(), card = this.root.closest(".card").getBoundingClientRect();
    const matrix = this.root.getScreenCTM();
    const at = new DOMPoint(this.links[number].middle.x, this.links[number].middle.y).matrixTransform(matrix);
    return { x: at.x - card.left, y: at.y - card.top, width: card.width, height: box.height };
  }

  redraw() { this.update(new Set(["edges", "ring", "routes", "load", "settings", "workers"])); }
}

// What a tip over a link says, one row a direction.
export function linkRows(store, number) {
  const link = store.scene.links[number], use = store.ringUse();
  return [[link.a, link.b, 2 * number], [link.b, link.a, 2 * number + 1]].map(([from, to, edge]) => {
    const each = store.edges[edge];
    return { from: store.siteName(from), to: store.siteName(to), ...each, used: share(each.load, each.rate), ring: use[edge], edge };
  });
}
