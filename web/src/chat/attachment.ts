// The box of a file, a place or a person in a message.

import type { Media } from "@stoa-dev/client";
import { h, type Child } from "../dom";
import { t } from "../texts";
import { sign } from "./icons";

/** A link to another site, which gets no referrer. */
export const away = (href: string, props: Record<string, string>, ...children: Child[]) =>
  h("a", { ...props, href, target: "_blank", rel: "noopener noreferrer" }, ...children);

/** "48.2 kB" */
export const bytes = (size: number) =>
  new Intl.NumberFormat(t.locale, {
    style: "unit",
    unit: size < 1e6 ? "kilobyte" : "megabyte",
    maximumFractionDigits: 1,
  }).format(size < 1e6 ? size / 1e3 : size / 1e6);

/** "640 × 480, 48.2 kB" */
export function sizes({ width, height, size }: Media): string {
  return [width && height && `${width} × ${height}`, size && bytes(size)].filter(Boolean).join(", ");
}

/** A box with a title and details. With an address it is a link; doing is the text of the link. */
export function attachment(
  shape: "picture" | "file" | "voice" | "place" | "person",
  title: string,
  lines: (string | undefined)[],
  href?: string,
  doing = "",
): HTMLElement {
  const detail = lines.filter(Boolean).join(" · ");
  const inside: Child[] = [
    sign(shape),
    h(
      "span",
      { class: "attached-text" },
      h("span", { class: "attached-title" }, title),
      detail && h("span", { class: "attached-detail" }, detail),
      href ? h("span", { class: "attached-open" }, doing) : null,
    ),
  ];
  if (!href) return h("span", { class: "attached" }, ...inside);
  if (href.startsWith("#")) return h("a", { class: "attached", href }, ...inside);
  return away(href, { class: "attached" }, ...inside);
}
