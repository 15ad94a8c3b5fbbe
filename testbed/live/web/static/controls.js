// The header: arms, N and T_wan, in a running testbed as controls, in a finished run as what was.

import { armColour, byId, html } from "./dom.js";

const ARMS = {
  static: "Neither loop acts", wan: "The WAN controller moves paths",
  ccl: "The ring agent re-orders the ring", joint: "Both loops act",
};

export class Header {
  // `arms` can be chosen with `choose(arm)`; `act(request)` changes N and T_wan, null where nothing can be changed.
  constructor(store, arms, choose, act) {
    Object.assign(this, { store, act });
    byId("arms").querySelectorAll("button").forEach((button) => button.remove());
    this.buttons = arms.map((arm) => html("button", { type: "button", "data-arm": arm, title: ARMS[arm] ?? arm, "aria-pressed": "false", click: () => choose(arm) }, arm));
    byId("arms").append(...this.buttons);
    this.every = byId("reorder-every");
    this.period = byId("t-wan");
    for (const field of [this.every, this.period]) field.disabled = !act;
    if (act) this.listen();
    store.listen((changed) => { if (changed.has("settings") || changed.has("edges")) this.update(); });
    this.update();
  }

  listen() {
    this.every.addEventListener("change", () => this.ask(this.every, { op: "reorder", every: Number(this.every.value) }));
    this.period.addEventListener("change", () => this.ask(this.period, { op: "t_wan", period: Number(this.period.value) / 1000 }));
    byId("heal-all").hidden = false;
    byId("heal-all").addEventListener("click", () => this.act({ op: "heal" }));
  }

  async ask(field, request) {
    if (field.value === "") {
      this.update();
      return;
    }
    try {
      await this.act(request);
      field.setCustomValidity("");
    } catch (error) {
      field.setCustomValidity(error.message);
      field.reportValidity();
      this.update();
    }
  }

  update() {
    const { arm, reorder_every, t_wan_s } = this.store.settings;
    for (const button of this.buttons) {
      button.setAttribute("aria-pressed", String(button.dataset.arm === arm));
      button.style.setProperty("--arm", armColour(button.dataset.arm));
    }
    if (document.activeElement !== this.every) this.every.value = reorder_every || "";
    if (document.activeElement !== this.period) this.period.value = t_wan_s ? Math.round(t_wan_s * 1000) : "";
    byId("heal-all").disabled = this.store.edges.every(({ state }) => state === "up");
  }
}
