// The log: one line per change, newest first, with what it took from its cause to its effect.

import { byId, html } from "./dom.js";
import { clock, duration } from "./format.js";

const SHOWN = 120;
const MARKS = { routes: "▼", ring: "●", fault: "✕", heal: "✓", settings: "◆", info: "·" };

export class Log {
  constructor(store, origin) {
    this.store = store;
    this.origin = origin;
    this.list = byId("log");
    store.listen((changed) => { if (changed.has("log")) this.update(); });
    this.update();
  }

  update() {
    const entries = this.store.log.slice(-SHOWN).reverse();
    this.list.replaceChildren(...(entries.length ? entries.map((entry) => this.line(entry)) : [html("li", {}, html("span"), html("span"), "nothing yet")]));
  }

  line({ at, kind, tone, text, took_s }) {
    const kindOfLine = tone ?? kind;
    return html(
      "li", { class: `t-${kindOfLine}` },
      html("time", {}, clock(at - this.origin())), html("span", { class: "mark", "aria-hidden": "true" }, MARKS[kindOfLine] ?? "·"),
      html("span", {}, text), html("span", { class: "took" }, took_s === null || took_s === undefined ? "" : duration(took_s)),
    );
  }
}
