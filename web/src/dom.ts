// Building elements. Text is added as text nodes, and no text is parsed as HTML: a name on a board cannot become
// markup.

export type Child = Node | string | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((e: never) => void);

function fill(el: Element, props: Record<string, Value>, children: Child[]): void {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") el.addEventListener(name.slice(2), value as (e: globalThis.Event) => void);
    else if (value !== false && value !== null && value !== undefined)
      el.setAttribute(name, value === true ? "" : String(value));
  }
  for (const c of children) if (c !== null && c !== undefined && c !== false) el.append(c);
}

/** An HTML element. A property that is a function is an event listener: onclick, onsubmit. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const el = document.createElement(tag);
  fill(el, props, children);
  return el;
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  props: Record<string, Value> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(el, props, children);
  return el;
}

/** The data of the paths of pictures. */
export const shapes = {
  temple: "M12 2 2.5 7.2v2.1h19V7.2zM4.6 10.8h2.7v7.4H4.6zm6 0h2.8v7.4h-2.8zm6.1 0h2.7v7.4h-2.7zM2.5 19.6h19V22h-19z",
  check: "M9.6 16.6 5 12l-1.6 1.6 6.2 6.2L21 8.4l-1.6-1.6z",
  left: "M15.4 5.4 14 4l-8 8 8 8 1.4-1.4L8.8 12z",
  right: "m8.6 18.6 1.4 1.4 8-8-8-8-1.4 1.4 6.6 6.6z",
  bell: "M12 2a2 2 0 0 1 2 2v.6a6 6 0 0 1 4 5.600V15l2 2v1H4v-1l2-2v-4.800a6 6 0 0 1 4-5.600V4a2 2 0 0 1 2-2zm-2 17h4a2 2 0 0 1-4 0z",
  close: "M18.4 7 17 5.6l-5 5-5-5L5.6 7l5 5-5 5L7 18.4l5-5 5 5 1.4-1.4-5-5z",
};

/** A small picture next to words of the same meaning; hidden from screen readers. */
export const icon = (name: keyof typeof shapes) =>
  s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, s("path", { d: shapes[name] }));

/** The picture for streak freezes; hidden from screen readers. */
export const snowflake = () =>
  s(
    "svg",
    { viewBox: "0 0 24 24", class: "icon snowflake", "aria-hidden": "true" },
    ...[0, 60, 120].map((turn) =>
      s("path", { transform: `rotate(${turn} 12 12)`, d: "M12 2v20M9 3.400l3 3 3-3M9 20.600l3-3 3 3" }),
    ),
  );

/** Replaces all children of el. */
export function put(el: Element, ...children: Child[]): void {
  el.replaceChildren(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
}
