// The two plots over time: completion times per arm with the limit beneath, and capacities of the chosen links.

import { armColour, byId, colour, html, svg } from "./dom.js";
import { clock, duration, rate } from "./format.js";

const LIVE_SPAN_S = 120;
const ARMS = ["static", "wan", "ccl", "joint"];
const SERIES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#b5a800", "#7a7a7a"];
const DASHES = { static: [], wan: [7, 3], ccl: [2, 3], joint: [] };

function axes(values, origin) {
  const stroke = colour("quiet"), grid = { stroke: colour("line"), width: 1 };
  const font = "11px system-ui, sans-serif";
  return [
    { stroke, grid: { show: false }, ticks: { ...grid, size: 4 }, font, size: 28, splits: wholeSteps(origin), values: (_, ticks) => ticks.map((at) => clock(at - origin).replace(".0 s", " s")), space: 70 },
    { stroke, grid, ticks: { show: false }, font, size: 62, values: (_, ticks) => ticks.map(values), space: 30 },
  ];
}

// Ticks at whole steps from where time counts.
function wholeSteps(origin) {
  return (u, axis, low, high, step) => {
    const ticks = [];
    for (let at = Math.ceil((low - origin) / step) * step; origin + at <= high; at += step) ticks.push(origin + at);
    return ticks;
  };
}

class Plot {
  constructor(host) {
    this.host = byId(host);
    this.u = null;
    new ResizeObserver(() => this.resize()).observe(this.host);
  }

  size() { return { width: Math.max(120, this.host.clientWidth), height: Math.max(90, this.host.clientHeight) }; }

  resize() { this.u?.setSize(this.size()); }

  make(options, data) {
    this.u?.destroy();
    this.u = new uPlot({ ...this.size(), padding: [10, 12, 0, 0], legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } }, ...options }, data, this.host);
  }
}

export class TimesPlot extends Plot {
  // `view` has range() → [from, to] in seconds, cursor() → s or null, arms() → which are drawn, seek(s).
  constructor(store, view) {
    super("times");
    this.store = store;
    this.view = view;
    this.legend();
    this.rebuild();
  }

  legend() {
    const line = (stroke, dash) => svg("svg", { width: 22, height: 10 }, svg("line", { x1: 0, x2: 22, y1: 5, y2: 5, stroke, "stroke-width": 2.5, "stroke-dasharray": dash.join(" ") }));
    const mark = (name) => svg("svg", { width: 12, height: 10 }, name === "routes" ? svg("path", { d: "M1,1L11,1L6,9Z", fill: colour("arm-wan") }) : svg("circle", { cx: 6, cy: 5, r: 4, fill: colour("arm-ccl") }));
    byId("times-legend").replaceChildren(
      ...ARMS.map((arm) => html("li", {}, line(armColour(arm), DASHES[arm]), arm)),
      html("li", {}, line(colour("limit"), []), "physical limit"),
      html("li", {}, mark("routes"), "paths moved"), html("li", {}, mark("ring"), "ring changed"),
    );
  }

  rebuild() {
    const of = (arm) => ({
      stroke: armColour(arm), width: arm === "joint" ? 2.4 : 2, dash: DASHES[arm], spanGaps: false,
      points: { show: true, size: 6, fill: armColour(arm), stroke: armColour(arm) },
    });
    this.make({
      scales: { x: { time: false, range: () => this.view.range() }, y: { range: (_, low, high) => [0, Math.max(0.05, (high || 0.1) * 1.18)] } },
      axes: axes((value) => duration(value), this.view.origin()),
      series: [{}, { stroke: colour("limit"), width: 1.6, points: { show: true, size: 3, fill: colour("limit"), stroke: colour("limit") } }, ...ARMS.map(of)],
      hooks: { draw: [(u) => this.drawMarks(u)] },
    }, this.data());
    this.u.over.addEventListener("click", (event) => this.view.seek?.(this.u.posToVal(event.offsetX, "x")));
  }

  // Columns: time, limit, one per arm. A stretch in one arm is one line; another arm begins another.
  data() {
    const rows = this.view.collectives();
    const columns = [rows.map((row) => row.at), rows.map((row) => row.limit_s), ...ARMS.map((arm) => rows.map((row) => (row.arm === arm ? row.took_s : undefined)))];
    if (this.view.broken) return columns.map((column, index) => (index < 2 ? column : withBreaks(column)));
    return columns;
  }

  update() {
    if (!this.u) return;
    this.u.setData(this.data());
    const last = this.view.latest();
    byId("times-now").textContent = last ? `${duration(last.took_s)}, limit ${duration(last.limit_s)}` : "none yet";
  }

  drawMarks(u) {
    const { ctx } = u, ratio = devicePixelRatio || 1, top = u.bbox.top;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top - 8 * ratio, u.bbox.width, u.bbox.height + 8 * ratio);
    ctx.clip();
    for (const { at, kind } of this.store.marks) {
      const x = u.valToPos(at, "x", true);
      ctx.fillStyle = colour(kind === "routes" ? "arm-wan" : "arm-ccl");
      ctx.beginPath();
      if (kind === "routes") { ctx.moveTo(x - 5 * ratio, top); ctx.lineTo(x + 5 * ratio, top); ctx.lineTo(x, top + 8 * ratio); } else ctx.arc(x, top + 15 * ratio, 4 * ratio, 0, 7);
      ctx.fill();
    }
    drawCursor(u, this.view.cursor());
    ctx.restore();
  }
}

// null ends a line, undefined goes on: where the arm changes, the line of the one before ends.
function withBreaks(column) {
  let inside = false;
  return column.map((value) => {
    if (value !== undefined) { inside = true; return value; }
    if (!inside) return undefined;
    inside = false;
    return null;
  });
}

function drawCursor(u, at) {
  if (at === null || at === undefined) return;
  const x = u.valToPos(at, "x", true);
  u.ctx.setLineDash([]);
  u.ctx.strokeStyle = colour("text");
  u.ctx.lineWidth = 1.5 * (devicePixelRatio || 1);
  u.ctx.beginPath();
  u.ctx.moveTo(x, u.bbox.top);
  u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
  u.ctx.stroke();
}

export class CapacityPlot extends Plot {
  constructor(store, view) {
    super("capacity");
    this.store = store;
    this.view = view;
    this.chosen = store.scene.links.map((_, number) => number).slice(0, SERIES.length);
    this.buildChips();
    this.rebuild();
  }

  colourOf(link) { const place = this.chosen.indexOf(link); return place < 0 ? "" : SERIES[place % SERIES.length]; }

  buildChips() {
    byId("chips").replaceChildren(...this.store.scene.links.map((link, number) => html("button", { type: "button", "aria-pressed": "false", click: () => this.toggle(number) }, html("i"), link.name)));
    this.paintChips();
  }

  paintChips() {
    [...byId("chips").children].forEach((chip, number) => {
      chip.setAttribute("aria-pressed", String(this.chosen.includes(number)));
      chip.style.setProperty("--series", this.colourOf(number) || "transparent");
    });
  }

  toggle(number) {
    this.chosen = this.chosen.includes(number) ? this.chosen.filter((each) => each !== number) : [...this.chosen.slice(-7), number];
    this.paintChips();
    this.rebuild();
  }

  rebuild() {
    const stepped = uPlot.paths.stepped({ align: 1 });
    const series = this.chosen.flatMap((link) => [0, 1].map((back) => ({ stroke: this.colourOf(link), width: back ? 1.4 : 2.4, dash: back ? [6, 4] : [], paths: stepped, points: { show: false }, spanGaps: true })));
    this.make({
      scales: { x: { time: false, range: () => this.view.range() }, y: { range: (_, low, high) => [0, Math.max(1, (high || 1e6) * 1.12)] } },
      axes: axes((value) => (value ? rate(value).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ") : "0"), this.view.origin()),
      series: [{}, ...series],
      hooks: { draw: [(u) => { u.ctx.save(); drawCursor(u, this.view.cursor()); u.ctx.restore(); }] },
    }, this.data());
  }

  // Steps of every chosen direction on one time axis; a rate holds until the next change, the last one until now.
  data() {
    const courses = this.chosen.flatMap((link) => [this.view.capacity(2 * link), this.view.capacity(2 * link + 1)]);
    const [from, to] = this.view.range(), end = this.view.end();
    const times = [...new Set([from, ...courses.flatMap((course) => course.map(([at]) => at)).filter((at) => at > from && at <= to), end])].sort((a, b) => a - b);
    const columns = courses.map((course) => {
      let next = 0, value = null;
      return times.map((at) => {
        while (next < course.length && course[next][0] <= at) value = course[next++][1];
        return value;
      });
    });
    return [times, ...columns];
  }

  update() { this.u?.setData(this.data()); }
}

export { LIVE_SPAN_S };
