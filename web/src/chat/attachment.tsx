// The box of a file, a place or a person in a message.

import type { Media } from "@stoa-dev/client";
import type { ComponentChildren } from "preact";
import { t } from "../texts";
import { Sign, type SignName } from "../ui/icon";

/** A link to another site, which gets no referrer. */
export const Away = ({ href, class: cls, children }: { href: string; class?: string; children: ComponentChildren }) => (
  <a href={href} class={cls} target="_blank" rel="noopener noreferrer">
    {children}
  </a>
);

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

interface AttachmentProps {
  shape: SignName;
  title: string;
  lines: (string | undefined)[];
  href?: string | undefined; // with an address, the box is a link
  open?: string; // the text of the link
}

export function Attachment({ shape, title, lines, href, open }: AttachmentProps) {
  const detail = lines.filter(Boolean).join(" · ");
  const inside = (
    <>
      <Sign name={shape} />
      <span class="attached-text">
        <span class="attached-title">{title}</span>
        {detail && <span class="attached-detail">{detail}</span>}
        {href && <span class="attached-open">{open}</span>}
      </span>
    </>
  );
  if (!href) return <span class="attached">{inside}</span>;
  if (href.startsWith("#"))
    return (
      <a class="attached" href={href}>
        {inside}
      </a>
    );
  return (
    <Away class="attached" href={href}>
      {inside}
    </Away>
  );
}
