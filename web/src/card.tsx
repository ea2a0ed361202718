// Cards: the user's own, for a scan, and the page that a scanned card opens.

import type { User } from "@stoa-dev/client";
import { render } from "preact";
import { personPanel } from "./ask";
import { h, put } from "./dom";
import { say } from "./form";
import type { People } from "./people";
import { Ended } from "./session";
import { t } from "./texts";
import { Twice, Unloaded } from "./ui/act";
import { CardLink } from "./ui/card";
import type { View } from "./view";

/** The user's own card, as a picture and as a link. */
export function myCard(signal: AbortSignal): HTMLElement {
  const el = h("section", { class: "card", "aria-labelledby": "card-title", "data-part": "card" });
  const renewal = (renew: (text: string) => Promise<void>, failed: (err: unknown) => void) => (
    <Twice
      text={t.card.renew}
      sure={t.card.renewSure}
      note={t.card.renewNote}
      run={() => renew(t.card.renewed)}
      failed={failed}
    />
  );
  render(
    <>
      <h2 id="card-title">{t.card.mine}</h2>
      <CardLink path="/v1/me/card" words={t.card} further={renewal} />
    </>,
    el,
  );
  signal.addEventListener("abort", () => render(null, el));
  return el;
}

/** The user whom a scanned card identifies. */
export function cardView(me: User, token: string, people: People, fail: (text: string) => void): View {
  const closed = new AbortController();
  const failed = (err: unknown) => {
    if (!(err instanceof Ended) && !closed.signal.aborted) fail(say(err));
  };
  const body = h("section", { class: "card", "aria-label": t.card.whose }, h("p", { class: "muted" }, t.words.moment));
  const load = async (): Promise<void> => {
    try {
      const p = await people.cardOwner(token);
      put(
        body,
        p
          ? personPanel(p, { card: token }, { me: me.id, people, signal: closed.signal, failed })
          : h("p", { class: "none" }, t.card.worthless),
      );
    } catch (err) {
      if (err instanceof Ended) return;
      const fault = h("div");
      render(<Unloaded why={say(err)} load={load} />, fault);
      put(body, fault);
    }
  };
  void load();
  return { el: h("div", { class: "narrow" }, h("h1", {}, t.card.title), body), close: () => closed.abort() };
}
