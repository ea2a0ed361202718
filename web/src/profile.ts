// The profile: name, time zone, logged-in devices.

import { now, Refused, type Session, type Sessions, type User, type UserUpdate } from "./api";
import { zoneSelect } from "./auth";
import { ago } from "./days";
import { h, put } from "./dom";
import { field, form, say } from "./form";
import type { View } from "./home";
import { authed, Ended, json, setUser } from "./session";

export function profile(me: User, on: { fail: (text: string) => void; left: (text: string) => void }): View {
  const closed = new AbortController();
  const name = field("Name", { name: "name", required: true, maxlength: 40, autocomplete: "nickname", value: me.name }, "What others see on the boards.");
  const zone = field("Time zone", { name: "zone" }, "Your day begins and ends at midnight there.", zoneSelect(me.next_zone ?? me.zone));
  const pending = h("p", { class: "note", hidden: true });
  const saved = h("span", { class: "saved", role: "status" });
  const devices = h("ul", { class: "devices" }, h("li", { class: "muted" }, "One moment …"));

  const show = () => {
    pending.hidden = !me.next_zone;
    put(pending, "Today still ends in ", h("strong", {}, me.zone.replaceAll("_", " ")), "; ", h("strong", {}, (me.next_zone ?? "").replaceAll("_", " ")), " counts from the next midnight.");
  };
  const take = (u: User) => {
    me = u;
    setUser(u);
    show();
  };

  const account = form(
    { class: "stack" },
    [name, zone],
    async () => {
      saved.textContent = "";
      const body: UserUpdate = {};
      if (name.input.value !== me.name) body.name = name.input.value;
      if (zone.input.value !== (me.next_zone ?? me.zone)) body.zone = zone.input.value;
      if (Object.keys(body).length > 0) take(await json<User>("/v1/me", { method: "PATCH", body }));
      saved.textContent = "Saved.";
    },
    pending,
    h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Save"), saved),
  );
  account.addEventListener("input", () => (saved.textContent = ""));

  const failed = (err: unknown) => {
    if (!(err instanceof Ended) && !closed.signal.aborted) on.fail(say(err));
  };
  const list = async () => {
    try {
      const { sessions } = await json<Sessions>("/v1/sessions", { signal: closed.signal });
      put(devices, ...sessions.map(device));
    } catch (err) {
      failed(err);
    }
  };
  const device = (d: Session) => {
    const out = h(
      "button",
      {
        type: "button",
        class: "secondary",
        "aria-label": `Log out ${d.name || "unnamed device"}${d.current ? ", this device" : ""}`,
        onclick: async () => {
          out.disabled = true;
          try {
            await authed(`/v1/sessions/${d.device}`, { method: "DELETE" }).catch((err: unknown) => {
              // Gone already is what was wanted.
              if (!(err instanceof Refused && err.problem.status === 404)) throw err;
            });
            if (d.current) return on.left("You have logged out.");
            await list();
          } catch (err) {
            out.disabled = false;
            failed(err);
          }
        },
      },
      "Log out",
    );
    return h(
      "li",
      {},
      h(
        "div",
        {},
        h("p", { class: "device-name" }, d.name || "Unnamed device", d.current && h("span", { class: "you" }, "this device")),
        h("p", { class: "muted" }, `${d.ip || "unknown address"} · used ${ago(d.used, now())} · since ${new Intl.DateTimeFormat("en-GB", { dateStyle: "medium" }).format(Date.parse(d.created))}`),
      ),
      out,
    );
  };

  // A second tap confirms: it is quicker than a dialog and cannot be hit twice by
  // accident, as the first button goes away.
  const everywhere = h("div", { class: "row" });
  const ask = () => {
    const sure = h(
      "button",
      {
        type: "button",
        class: "danger",
        onclick: async () => {
          try {
            await authed("/v1/sessions", { method: "DELETE" });
            on.left("You have logged out on all devices.");
          } catch (err) {
            failed(err);
          }
        },
      },
      "Yes, log out all of them",
    );
    const no = h("button", { type: "button", class: "link", onclick: offer }, "Cancel");
    put(everywhere, sure, no);
    no.focus();
  };
  const offer = () => {
    put(everywhere, h("button", { type: "button", class: "secondary", onclick: ask }, "Log out everywhere"));
  };
  offer();
  show();
  void list();
  json<User>("/v1/me", { signal: closed.signal }).then(take, failed);

  return {
    el: h(
      "div",
      { class: "profile" },
      h("h1", {}, "Profile"),
      h("section", { class: "card", "aria-labelledby": "account-title" }, h("h2", { id: "account-title" }, "Account"), h("p", { class: "muted" }, me.email), account),
      h("section", { class: "card", "aria-labelledby": "devices-title" }, h("h2", { id: "devices-title" }, "Logged-in devices"), devices, everywhere),
    ),
    close: () => closed.abort(),
  };
}
