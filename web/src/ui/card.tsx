// Cards: a user or a group as a picture for a scan, and as a link.

import { useSignal } from "@preact/signals";
import type { Card } from "@stoa-dev/client";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { authed, json } from "../session";
import { t } from "../texts";
import { Fault, useFault } from "./form";
import { CopyText } from "./links";

interface CardProps {
  path: string; // of the card on the server
  words: { link: string; picture: string; lasts: (seconds: number) => string };
  further?: (renew: (text: string) => Promise<void>, failed: (err: unknown) => void) => ComponentChildren; // buttons
}

/** A card: its picture, its expiry, its link, and a copy button. An expired card is replaced by a new one. */
export function CardLink({ path, words, further }: CardProps) {
  const card = useSignal<(Card & { svg: string }) | undefined>(undefined);
  const said = useSignal("");
  const { fault, failed } = useFault();
  const gone = useRef(new AbortController()).current;
  const expiry = useRef<ReturnType<typeof setTimeout>>(undefined);
  const load = async () => {
    const { signal } = gone;
    const got = await json<Card>(path, { method: "POST", signal });
    const svg = await authed(`${path}.svg`, { accept: "image/svg+xml", signal }).then((res) => res.text());
    card.value = { ...got, svg };
    fault.value = "";
    clearTimeout(expiry.current);
    expiry.current = setTimeout(() => void load().catch(unlessGone), (got.expires_in + 1) * 1000);
  };
  const unlessGone = (err: unknown) => gone.signal.aborted || failed(err);
  useLayoutEffect(() => {
    load().catch(unlessGone);
    return () => {
      gone.abort();
      clearTimeout(expiry.current);
    };
  }, []);
  const renew = async (text: string) => {
    await authed(path, { method: "DELETE" });
    await load();
    said.value = text;
  };
  return (
    <>
      <div class="qr">{card.value && <Code svg={card.value.svg} label={words.picture} />}</div>
      <p class="hint">{card.value ? words.lasts(card.value.expires_in) : t.words.moment}</p>
      <CopyText
        label={words.link}
        value={card.value?.url ?? ""}
        copy={t.card.copy}
        copied={() => (said.value = t.card.copied)}
        failed={failed}
      >
        {further?.(renew, failed)}
      </CopyText>
      <span class="saved" role="status">
        {said.value}
      </span>
      <Fault text={fault} />
    </>
  );
}

// Code builds the picture from its paths, so that no text of the server is parsed as markup.
function Code({ svg, label }: { svg: string; label: string }) {
  const value = (text: string, name: string) => new RegExp(`\\s${name}="([\\w#. -]+)"`).exec(text)?.[1];
  return (
    <svg viewBox={value(svg, "viewBox")} role="img" aria-label={label} shape-rendering="crispEdges">
      {svg.match(/<path[^>]+>/g)?.map((path) => (
        <path key={path} d={value(path, "d")} fill={value(path, "fill")} />
      ))}
    </svg>
  );
}
