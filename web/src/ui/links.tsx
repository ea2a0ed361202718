// Links that users may open to enter a group or a room.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { momentOf } from "../chat/when";
import { t } from "../texts";
import { Act, Twice } from "./act";
import { useKeptFocus } from "./focus";
import { Fault, Form, Select, useFault } from "./form";

const LIVES = [1, 24, 168, 720]; // hours

interface Link {
  id: string;
  expires: string;
}

interface Texts {
  linkLife: string;
  hours: (n: number) => string;
  linkLabel: string;
  linkEnds: (time: string) => string;
  noLinks: string;
  newLink: string;
  copy: string;
  copied: string;
  revoke: string;
  revokeSure: string;
}

interface LinksProps<L extends Link> {
  texts: Texts;
  place: string; // the part of an address for links
  uses?: (link: L) => string;
  load: () => Promise<L[]>;
  create: (values: FormData) => Promise<L>;
  revoke: (link: string) => Promise<unknown>;
  children?: ComponentChildren; // further fields of a new link
}

/** Creates links, and copies and revokes them. */
export function Links<L extends Link>({ texts, place, uses, load, create, revoke, children }: LinksProps<L>) {
  const links = useSignal<L[] | undefined>(undefined);
  const said = useSignal("");
  const { fault, failed } = useFault();
  const list = useRef<HTMLUListElement>(null);
  useKeptFocus(list, () => list.current?.closest("dialog")?.querySelector("select"));
  useLayoutEffect(() => {
    const add = (got: L[]) => {
      const created = links.peek() ?? [];
      links.value = [...created, ...got.filter(({ id }) => !created.some((link) => link.id === id))];
    };
    load().then(add, failed);
  }, []);
  const none = links.value ? texts.noLinks : t.words.moment;
  return (
    <>
      <Form
        class="stack"
        submit={async (values) => void (links.value = [await create(values), ...(links.peek() ?? [])])}
        fields={
          <>
            <Select label={texts.linkLife} name="hours" values={LIVES} text={texts.hours} chosen={168} />
            {children}
          </>
        }
      >
        <div class="row">
          <button type="submit" class="primary">
            {texts.newLink}
          </button>
          <span class="saved" role="status">
            {said.value}
          </span>
        </div>
      </Form>
      <Fault text={fault} />
      <p class="muted" hidden={Boolean(links.value?.length)}>
        {none}
      </p>
      <ul class="group-links" ref={list}>
        {links.value?.map((link) => (
          <li key={link.id} data-link={link.id}>
            <CopyText
              label={texts.linkLabel}
              value={`${location.origin}/#/${place}/${link.id}`}
              copy={texts.copy}
              copied={() => (said.value = texts.copied)}
              note={[uses?.(link), texts.linkEnds(momentOf(link.expires))].filter(Boolean).join(" · ")}
              failed={failed}
            >
              <Twice
                text={texts.revoke}
                sure={texts.revokeSure}
                run={async () => {
                  await revoke(link.id);
                  links.value = links.peek()?.filter((other) => other !== link);
                }}
                failed={failed}
              />
            </CopyText>
          </li>
        ))}
      </ul>
    </>
  );
}

interface CopyProps {
  label: string;
  value: string;
  note?: string;
  copy: string; // the text of the button
  copied: () => void;
  failed: (err: unknown) => void;
  children?: ComponentChildren; // further buttons
}

/** A text to copy. There is no clipboard outside secure contexts: there, the text can be selected. */
export function CopyText({ label, value, note, copy, copied, failed, children }: CopyProps) {
  const text = useRef<HTMLInputElement>(null);
  const run = async () => {
    text.current!.select();
    await navigator.clipboard.writeText(value);
    copied();
  };
  return (
    <>
      <input
        type="text"
        readonly
        class="link-text"
        aria-label={label}
        value={value}
        ref={text}
        onFocus={(e) => e.currentTarget.select()}
      />
      {note && <p class="hint">{note}</p>}
      <div class="row">
        <Act hidden={!navigator.clipboard} run={run} failed={failed}>
          {copy}
        </Act>
        {children}
      </div>
    </>
  );
}
