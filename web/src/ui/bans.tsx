// The banned users of a group or of a room.

import { useSignal } from "@preact/signals";
import type { Profile } from "@stoa-dev/client";
import { useLayoutEffect, useRef } from "preact/hooks";
import { now } from "../api";
import { ago } from "../days";
import { nameOf } from "../person";
import { t } from "../texts";
import { Act } from "./act";
import { headingOf } from "./dialog";
import { useKeptFocus } from "./focus";
import { Fault, useFault } from "./form";
import { Person } from "./person";

interface Ban {
  user: Profile;
  at: string;
}

interface BansProps {
  texts: { noBans: string; lift: string; liftName: (name: string) => string };
  load: (cursor: string) => Promise<{ bans: Ban[]; next?: string }>; // a page; "" for the first one
  lift: (user: string) => Promise<unknown>;
}

export function Bans({ texts, load, lift }: BansProps) {
  const bans = useSignal<Ban[] | undefined>(undefined);
  const cursor = useSignal("");
  const { fault, failed } = useFault();
  const list = useRef<HTMLUListElement>(null);
  useKeptFocus(list, () => headingOf(list.current));
  const read = async () => {
    const page = await load(cursor.peek());
    bans.value = [...(bans.peek() ?? []), ...page.bans];
    cursor.value = page.next ?? "";
  };
  useLayoutEffect(() => void read().catch(failed), []);
  const end = async (user: string) => {
    await lift(user);
    bans.value = bans.peek()?.filter((ban) => ban.user.id !== user);
  };
  return (
    <>
      <p class="muted" hidden={Boolean(bans.value?.length)}>
        {bans.value ? texts.noBans : t.words.moment}
      </p>
      <ul class="persons" ref={list}>
        {bans.value?.map(({ user, at }) => (
          <Person key={user.id} user={user} lines={[ago(at, now())]}>
            <Act run={() => end(user.id)} failed={failed} label={texts.liftName(nameOf(user))}>
              {texts.lift}
            </Act>
          </Person>
        ))}
      </ul>
      <Act kind="link" hidden={!cursor.value} run={read} failed={failed}>
        {t.words.showMore}
      </Act>
      <Fault text={fault} />
    </>
  );
}
