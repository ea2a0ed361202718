// Mentions: "@" opens a list of members above the field.

import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { matching, mentionAt, mentionedIn, type Candidate } from "../state/mentions";
import { g } from "../texts/groups";
import { Face, GroupFace } from "../ui/face";
import type { ChatContext } from "./context";

const SHOWN = 6;

/** The functions of the list that the field calls. */
export interface MentionsHandle {
  key: (e: KeyboardEvent) => boolean; // handles a key, and reports whether it was for the list
  of: (text: string) => string[]; // the ids of the users that a text mentions
}

interface MentionsProps {
  field: RefObject<HTMLTextAreaElement | null>;
  group: string;
  ctx: ChatContext;
  handle: RefObject<MentionsHandle | null>;
  typed: (text: string) => void; // applies a change of the field
}

export function Mentions({ field, group, ctx, handle, typed }: MentionsProps) {
  const shown = useSignal<Candidate[]>([]);
  const at = useSignal(0);
  const chosen = useRef(new Map<string, string>()); // ids by names
  const choice = useRef<(who: Candidate) => void>(() => {});
  const { groups } = ctx.connection;

  useLayoutEffect(() => {
    const input = field.current!;
    const query = () => mentionAt(input.value, input.selectionStart, input.selectionEnd);
    const close = () => (shown.value = []);
    const look = () => {
      const wanted = query();
      shown.value = wanted === undefined ? [] : matching(candidates(group, ctx), wanted).slice(0, SHOWN);
      at.value = 0;
    };
    const choose = ({ id, name }: Candidate) => {
      const { value, selectionStart } = input;
      const from = selectionStart - (query() ?? "").length - 1;
      chosen.current.set(name, id);
      input.setRangeText(`@${name} `, from, selectionStart, "end");
      if (value[selectionStart] === " ") input.setRangeText("", input.selectionStart, input.selectionStart + 1, "end");
      typed(input.value);
      close();
      input.focus();
    };
    const key = (e: KeyboardEvent) => {
      const list = shown.peek();
      if (list.length === 0) return false;
      const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (step) at.value = (at.peek() + step + list.length) % list.length;
      else if (e.key === "Enter" || e.key === "Tab") choose(list[at.peek()]!);
      else if (e.key === "Escape") close();
      else return false;
      e.preventDefault();
      e.stopPropagation();
      return true;
    };
    choice.current = choose;
    handle.current = { key, of: (text) => mentionedIn(text, chosen.current) };
    input.setAttribute("aria-controls", "mention-list");
    input.setAttribute("aria-autocomplete", "list");
    input.addEventListener("input", look);
    input.addEventListener("blur", close);
  }, []);
  useLayoutEffect(() => {
    if (shown.value.length === 0) field.current!.removeAttribute("aria-activedescendant");
    else field.current!.setAttribute("aria-activedescendant", `mention-${at.value}`);
  }, [shown.value, at.value]);

  return (
    <ul class="mention-list" role="listbox" id="mention-list" aria-label={g.mention} hidden={shown.value.length === 0}>
      {shown.value.map((who, i) => (
        // A press must not move the focus from the field.
        <li
          key={who.id}
          role="option"
          id={`mention-${i}`}
          aria-selected={i === at.value}
          onMouseDown={(e) => e.preventDefault()}
          onClick={() => choice.current(who)}
        >
          {who.id === "all" ? <GroupFace name="@" /> : <Face profile={groups.profile(group, who.id)} />}
          <span>{who.name}</span>
          {who.note && <span class="muted">{who.note}</span>}
        </li>
      ))}
    </ul>
  );
}

function candidates(group: string, ctx: ChatContext): Candidate[] {
  const { groups, signals } = ctx.connection;
  const all: Candidate[] = groups.may(group, "mentionAll")
    ? [{ id: "all", name: g.everybody, note: g.everybodyLong }]
    : [];
  for (const { user } of groups.members(group)) {
    if (user.id === ctx.me.id || user.deleted) continue;
    const name = groups.memberName(group, user.id); // the name that all members see, too
    const others = [signals.friend(user.id)?.remark, user.name];
    all.push({ id: user.id, name, note: others.find((other) => other && other !== name) ?? "" });
  }
  return all;
}
