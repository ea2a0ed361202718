// The logged-in devices of the user.

import type { Session, Sessions } from "@stoa-dev/client";
import { now, Refused } from "./api";
import { agentWords } from "./agent";
import { act, twice } from "./buttons";
import { ago, dateOf } from "./days";
import { h } from "./dom";
import { rows } from "./rows";
import { authed, json } from "./session";
import { t } from "./texts";

interface Around {
  signal: AbortSignal;
  failed: (err: unknown) => void;
  left: (text: string) => void;
}

export function devicesCard(on: Around) {
  const title = h("h2", { id: "devices-title", tabindex: -1 }, t.devices.title);
  const list = h("ul", { class: "devices" }, h("li", { class: "muted" }, t.words.moment));
  const said = h("span", { class: "saved", role: "status" });
  const others = twice(
    t.devices.outOthers,
    t.devices.outOthersSure,
    async () => {
      await authed("/v1/sessions?others=true", { method: "DELETE" });
      await load();
      said.textContent = t.devices.othersOut;
    },
    on.failed,
  );
  const all = twice(
    t.devices.outAll,
    t.devices.outAllSure,
    async () => {
      await authed("/v1/sessions", { method: "DELETE" });
      on.left(t.devices.allOut);
    },
    on.failed,
  );

  const show = rows<Session>(list, (d) => d.device, device, title);

  // the number of reads: an event may start another one, and only the latest counts
  let reads = 0;
  async function load(): Promise<void> {
    const read = ++reads;
    const { sessions } = await json<Sessions>("/v1/sessions", { signal: on.signal });
    if (read !== reads) return;
    show(sessions);
    others.hidden = sessions.length < 2;
    if (others.hidden && others.contains(document.activeElement)) title.focus({ preventScroll: true });
    if (!others.hidden) said.textContent = ""; // the message about the other devices is outdated
  }

  function device(d: Session): HTMLLIElement {
    const words = agentWords(d.agent ?? "");
    const name = d.name || words || t.devices.unnamed;
    return h(
      "li",
      { "data-device": d.device },
      h(
        "div",
        {},
        h("p", { class: "device-name" }, name, d.current && h("span", { class: "you" }, t.devices.this)),
        h(
          "p",
          { class: "muted", title: d.agent },
          [
            words !== name && words,
            d.ip || t.devices.unknownAddress,
            t.devices.used(ago(d.used, now())),
            t.devices.since(dateOf(d.created)),
          ]
            .filter(Boolean)
            .join(" · "),
        ),
      ),
      act(t.devices.out, "secondary", () => out(d), on.failed, t.devices.outName(name, d.current)),
    );
  }

  async function out(d: Session): Promise<void> {
    await authed(`/v1/sessions/${d.device}`, { method: "DELETE" }).catch((err: unknown) => {
      // The session has already ended, which was the aim.
      if (!(err instanceof Refused && err.problem.status === 404)) throw err;
    });
    if (d.current) return on.left(t.frame.out);
    await load();
  }

  return {
    el: h(
      "section",
      { class: "card", "aria-labelledby": "devices-title", "data-part": "devices" },
      title,
      list,
      h("div", { class: "row" }, others, all),
      said,
    ),
    load: () => void load().catch(on.failed),
  };
}
