// How users are shown: a picture and a name.

import type { Friend, Profile } from "@stoa-dev/client";
import { h, type Child } from "./dom";
import { t } from "./texts";

/** The name of a user; a deleted account has none. */
export const nameOf = (p: Profile) => (p.deleted ? t.people.deleted : p.name);

/** The user's name for a friend: the remark, or the friend's name. */
export const calledBy = (f: Friend) => f.remark || nameOf(f.user);

/** The picture of a user, or else a letter. The name is next to it, so screen readers skip this. */
export function face(p: Profile, large = false): HTMLElement {
  const letter = h(
    "span",
    { class: `face ${large ? "large" : ""} ${p.deleted ? "gone" : ""}`, "aria-hidden": "true" },
    p.deleted ? "–" : ([...p.name][0] ?? "").toUpperCase(),
  );
  if (!p.avatar || p.deleted) return letter;
  const src = (size: number) => `/v1/avatars/${p.avatar}/${size}`;
  const side = large ? 96 : 44;
  const img: HTMLImageElement = h("img", {
    class: `face ${large ? "large" : ""}`,
    alt: "",
    width: side,
    height: side,
    src: src(large ? 256 : 64),
    srcset: large ? `${src(256)} 2x, ${src(512)} 4x` : `${src(64)} 1x, ${src(256)} 2x`,
    onerror: () => img.replaceWith(letter),
  });
  return img;
}

/** A row of a list: picture, name, further lines, and actions. */
export function personRow(p: Profile, name: Child[], lines: Child[], ...actions: Child[]): HTMLLIElement {
  return h(
    "li",
    { class: p.deleted ? "person gone" : "person", "data-user": p.id },
    face(p),
    h(
      "div",
      { class: "person-text" },
      h("p", { class: "person-name" }, ...name),
      ...lines.map((line) => line && h("p", { class: "muted" }, line)),
    ),
    actions.length > 0 && h("div", { class: "row person-actions" }, ...actions),
  );
}
