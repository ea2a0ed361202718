// Cards: the user's own, for a scan, and the page that a scanned card opens.

import type { Card, User } from "@stoa-dev/client";
import { personPanel } from "./ask";
import { act, twice, unloaded } from "./buttons";
import { h, put, s } from "./dom";
import { say } from "./form";
import type { People } from "./people";
import { authed, Ended, json } from "./session";
import { t } from "./texts";
import type { View } from "./view";

/** The user's own card, as a picture and as a link. */
export function myCard(on: { signal: AbortSignal; failed: (err: unknown) => void }): HTMLElement {
  const said = h("span", { class: "saved", role: "status" });
  const shown = cardAt("/v1/me/card", t.card, on, said);
  const renew = twice(
    t.card.renew,
    t.card.renewSure,
    async () => {
      await authed("/v1/me/card", { method: "DELETE" });
      await shown.load();
      said.textContent = t.card.renewed;
    },
    on.failed,
    t.card.renewNote,
  );
  return h(
    "section",
    { class: "card", "aria-labelledby": "card-title", "data-part": "card" },
    h("h2", { id: "card-title" }, t.card.mine),
    ...shown.parts,
    h("div", { class: "row" }, shown.copy, renew),
    said,
  );
}

/** A card at a path of the server: its picture, its expiry, its link, and a copy button. */
export function cardAt(
  path: string,
  words: { link: string; picture: string; lasts: (seconds: number) => string },
  on: { signal: AbortSignal; failed: (err: unknown) => void },
  said: HTMLElement,
) {
  const picture = h("div", { class: "qr" });
  const link = h("input", {
    type: "text",
    readonly: true,
    "aria-label": words.link,
    class: "link-text",
    onfocus: () => link.select(),
  });
  const lasts = h("p", { class: "hint" }, t.words.moment);
  let expiry: ReturnType<typeof setTimeout> | undefined;
  on.signal.addEventListener("abort", () => clearTimeout(expiry));

  async function load(): Promise<void> {
    const card = await json<Card>(path, { method: "POST", signal: on.signal });
    const svg = await authed(`${path}.svg`, { accept: "image/svg+xml", signal: on.signal }).then((res) => res.text());
    put(picture, drawn(svg, words.picture));
    link.value = card.url;
    lasts.textContent = words.lasts(card.expires_in);
    clearTimeout(expiry);
    expiry = setTimeout(() => void load().catch(on.failed), (card.expires_in + 1) * 1000);
  }

  void load().catch(on.failed);
  const copy = act(
    t.card.copy,
    "secondary",
    async () => {
      link.select();
      await navigator.clipboard.writeText(link.value);
      said.textContent = t.card.copied;
    },
    on.failed,
  );
  copy.hidden = !navigator.clipboard; // there is no clipboard outside secure contexts: the text can be selected
  return { load, parts: [picture, lasts, link], copy };
}

// drawn builds the picture from its paths, so that no text of the server is parsed as markup.
function drawn(svg: string, label: string): SVGSVGElement {
  const value = (text: string, name: string) => new RegExp(`\\s${name}="([\\w#. -]+)"`).exec(text)?.[1];
  const paths = (svg.match(/<path[^>]+>/g) ?? []).map((p) => s("path", { d: value(p, "d"), fill: value(p, "fill") }));
  return s(
    "svg",
    { viewBox: value(svg, "viewBox"), role: "img", "aria-label": label, "shape-rendering": "crispEdges" },
    ...paths,
  );
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
      if (!(err instanceof Ended)) put(body, unloaded(say(err), load));
    }
  };
  void load();
  return { el: h("div", { class: "narrow" }, h("h1", {}, t.card.title), body), close: () => closed.abort() };
}
