// Puts the page together: one store, one map, two plots, one log; what feeds them is a running testbed or a finished run.

import { Header } from "./controls.js";
import { byId, colour, html, svg } from "./dom.js";
import { LinkCard, PairPicker, Tip } from "./inspect.js";
import { Live, LiveView } from "./live.js";
import { Log } from "./log.js";
import { WorldMap } from "./map.js";
import { CapacityPlot, LIVE_SPAN_S, TimesPlot } from "./plots.js";
import { Replay, ReplayView } from "./replay.js";
import { Store } from "./store.js";

const REDRAW_MS = 1000;
const PLOT_MS = 250;
const ARMS = ["static", "wan", "ccl", "joint"];
const WORDS = { connecting: "connecting", live: "live", lost: "connection lost, trying again", closed: "the dashboard does not answer", down: "the testbed was taken down", run: "finished run" };

function chooseTheme(theme) { document.documentElement.dataset.theme = theme; }

function preferredTheme() {
  return localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function mapLegend(measured) {
  const lane = (fill, width) => svg("svg", { width: 30, height: 12 }, svg("line", { x1: 1, x2: 29, y1: 6, y2: 6, stroke: colour("lane"), "stroke-width": 10 }), svg("line", { x1: 1, x2: 29, y1: 6, y2: 6, stroke: colour(fill), "stroke-width": width }));
  const ring = svg("svg", { width: 30, height: 14 }, svg("line", { x1: 1, x2: 29, y1: 7, y2: 7, stroke: "var(--arm)", "stroke-width": 13 }), svg("line", { x1: 0, x2: 30, y1: 7, y2: 7, stroke: colour("lane"), "stroke-width": 8 }));
  const dashed = (name, dash) => svg("svg", { width: 30, height: 10 }, svg("line", { x1: 1, x2: 29, y1: 5, y2: 5, stroke: colour(name), "stroke-width": 3, "stroke-dasharray": dash, "stroke-linecap": "round" }));
  byId("legend").replaceChildren(
    html("li", {}, lane("lane", 10), "width: capacity"),
    html("li", {}, lane("load-low", 4), lane("load-mid", 7), lane("load-high", 9), `filled: load${measured ? "" : " (from ring and paths)"}, above 60 %, above 90 %`),
    html("li", {}, ring, "the ring, in its arm's colour"),
    html("li", {}, dashed("path", "1 6"), "path of a pair"),
    html("li", {}, dashed("fault", "2 7"), "down"), html("li", {}, dashed("hole", "8 5"), "blackholed"),
  );
}

function setState(state) {
  const status = byId("status");
  status.classList.toggle("lost", ["lost", "closed", "down"].includes(state));
  status.querySelector("span").textContent = WORDS[state];
  document.body.dataset.state = state;
}

// The first call acts at once; those that follow within `ms` are one, at its end.
function atMost(action, ms) {
  let timer = null, again = false;
  const run = () => {
    if (timer !== null) { again = true; return; }
    action();
    timer = setTimeout(() => { timer = null; if (again) { again = false; run(); } }, ms);
  };
  return run;
}

function announce(store) {
  let last = 0;
  store.listen((changed) => {
    if (!changed.has("log") || store.log.length === 0) return;
    const { at, text } = store.log.at(-1);
    if (at > last) byId("announcer").textContent = text;
    last = at;
  });
}

// Everything that both kinds share. `view` feeds the plots, `act` changes things or is null.
function assemble(store, view, act, origin) {
  const tip = new Tip(store);
  let pairs, card;
  const map = new WorldMap(store, {
    open: (link) => { tip.hide(); card.open(link); },
    site: (number) => pairs.site(number),
    over: (target, event) => {
      if (target.site !== undefined) pairs.over(target.site);
      if (event && byId("link-card").hidden) target.link !== undefined ? tip.link(target.link, event, Boolean(act)) : tip.site(target.site, event);
    },
    out: () => { tip.hide(); pairs.out(); },
  });
  const times = new TimesPlot(store, view), capacity = new CapacityPlot(store, view);
  pairs = new PairPicker(store, map);
  card = new LinkCard(store, map, capacity, act);
  const log = new Log(store, origin);
  mapLegend(Boolean(act));
  announce(store);
  byId("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", theme);
    chooseTheme(theme);
    mapLegend(Boolean(act));
    map.redraw();
    times.legend();
    times.rebuild();
    capacity.rebuild();
  });
  return { map, times, capacity, log, pairs, card };
}

function showLive(store) {
  const live = new Live(store, setState);
  const view = new LiveView(store, live, LIVE_SPAN_S);
  const parts = assemble(store, view, (request) => live.act(request), () => store.scene.began_at);
  const header = new Header(store, ARMS, (arm) => live.act({ op: "arm", arm }).catch((error) => { byId("announcer").textContent = error.message; }), (request) => live.act(request));
  const draw = () => {
    if (document.hidden) return;
    parts.times.update();
    parts.capacity.update();
  };
  const times = atMost(() => parts.times.update(), PLOT_MS), capacity = atMost(() => parts.capacity.update(), PLOT_MS);
  store.listen((changed) => {
    if (changed.has("collectives")) times();
    if (changed.has("capacity")) capacity();
  });
  setInterval(draw, REDRAW_MS);
  return { live, header, ...parts };
}

async function showRun(store) {
  let parts = null, header = null;
  const drawn = () => { parts?.times.update(); parts?.capacity.update(); };
  const replay = new Replay(store, () => { header?.update(); parts?.times.rebuild(); parts?.capacity.rebuild(); });
  await replay.load(store.scene.blocks[0]);
  const view = new ReplayView(store, replay);
  parts = assemble(store, view, null, () => 0);
  header = new Header(store, replay.arms.map(({ arm }) => arm), (arm) => replay.show(arm), null);
  store.listen(drawn);
  byId("replay").hidden = false;
  replay.seek(Math.min(replay.length, replay.length * 0.5));
  setState("run");
  return { replay, header, ...parts };
}

async function main() {
  chooseTheme(preferredTheme());
  setState("connecting");
  // The token came as a cookie by now: it is not left where it is seen, copied and kept.
  if (location.search) history.replaceState(null, "", location.pathname);
  const answer = await fetch("scene");
  if (!answer.ok) throw new Error(`the dashboard answered ${answer.status}`);
  const store = new Store(await answer.json());
  byId("title").textContent = store.scene.title;
  byId("subtitle").textContent = store.scene.subtitle;
  byId("doubt").hidden = !store.scene.doubt;
  byId("doubt").title = store.scene.doubt ?? "";
  document.title = `${store.scene.title} · Ringroad`;
  const shown = store.scene.mode === "live" ? showLive(store) : await showRun(store);
  window.ringroad = { store, ...shown };
}

main().catch((error) => {
  setState("closed");
  byId("announcer").textContent = error.message;
});
