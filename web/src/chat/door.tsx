// The page before a group, for users who are not in it. The group's address or an invitation link leads here.

import { signal, useSignal } from "@preact/signals";
import { Refused, type GroupMembership } from "@stoa-dev/client";
import { render } from "preact";
import { h } from "../dom";
import type { Connection } from "../connection";
import { Ended } from "../session";
import { g } from "../texts/groups";
import type { View } from "../view";
import { t } from "../texts";
import { Act, Unloaded } from "../ui/act";
import { GroupFace } from "../ui/face";
import { Form, Input, textOf } from "../ui/form";
import { explain } from "./context";

type Target = { link: string } | { group: string };
type Shown = "wait" | "worthless" | "refused" | { fault: string } | (GroupMembership & { load: number });

/** Shows the group of a link or of an id. */
export function doorView(to: Target, connection: Connection, fail: (text: string) => void): View {
  const { client } = connection;
  const shown = signal<Shown>("wait");
  let group = ""; // the id of the shown group
  let loads = 0;
  let closed = false;
  let withdrew = false; // the user has withdrawn the request here
  const failed = (err: unknown) => {
    if (!(err instanceof Ended) && !closed) fail(explain(err));
  };

  async function load(): Promise<void> {
    try {
      const got =
        "link" in to
          ? await client.call("groups.look", { path: { link: to.link } })
          : await client.call("groups.get", { path: { group: to.group } });
      group = got.group.id;
      shown.value = { ...got, load: ++loads };
    } catch (err) {
      if (err instanceof Refused && err.status === 404) shown.value = "worthless";
      else if (group) failed(err);
      else if (!(err instanceof Ended)) shown.value = { fault: explain(err) };
    }
  }
  const join = async () => {
    if ("link" in to) connection.groups.applyMembership(await client.call("groups.join", { path: { link: to.link } }));
    else {
      await client.call("groups.ask", { path: { group }, body: {} });
      connection.groups.applyMembership(await client.call("groups.get", { path: { group } }));
    }
    if (!closed) location.hash = `#/chats/g:${group}`;
  };
  const ask = async (values: FormData) => {
    try {
      await client.call("groups.ask", { path: { group }, body: { answer: textOf(values, "answer") } });
    } catch (err) {
      throw err instanceof Error && !(err instanceof Ended) ? new Error(explain(err)) : err;
    }
  };
  const withdraw = async () => {
    withdrew = true;
    await client.call("groups.withdraw", { path: { group } });
  };

  const Door = () => {
    const is = shown.value;
    if (is === "wait") return <p class="muted">{t.words.moment}</p>;
    if (is === "refused") return <p role="status">{g.refused}</p>;
    if (is === "worthless")
      return (
        <>
          <p class="none">{g.worthless}</p>
          <a href="#/chats">{t.frame.titles.chats}</a>
        </>
      );
    if ("fault" in is) return <Unloaded why={is.fault} load={load} />;
    const { name, picture = "", members, joins, question = "" } = is.group;
    return (
      <>
        <div class="door-head">
          <GroupFace name={name} picture={picture} large />
          <div>
            <h2 tabindex={-1}>{name}</h2>
            <p class="muted">{`${g.members(members)} · ${g.openFor[joins]}`}</p>
          </div>
        </div>
        {is.me && (
          <>
            <p class="muted">{g.inAlready}</p>
            <a class="primary small" href={`#/chats/g:${group}`}>
              {g.toChat}
            </a>
          </>
        )}
        {!is.me && ("link" in to || joins === "open") && (
          <div class="row">
            <Act kind="primary" run={join} failed={failed}>
              {g.join}
            </Act>
          </div>
        )}
        {!is.me && !("link" in to) && joins === "asking" && (
          <Asking key={is.load} question={question} ask={ask} withdraw={withdraw} failed={failed} />
        )}
        {!is.me && !("link" in to) && joins === "invited" && <p class="muted">{g.onlyInvited}</p>}
      </>
    );
  };
  const el = h("div", { class: "narrow" });
  render(
    <>
      <h1>{g.doorTitle}</h1>
      <section class="card door" aria-label={g.doorLabel}>
        <Door />
      </section>
    </>,
    el,
  );
  const offs = [
    client.on("group.mine", (mine) => {
      if (mine.group.id === group) void load();
    }),
    client.on("group.request_closed", (r) => {
      if (r.group !== group) return;
      if (r.state === "refused") shown.value = "refused";
      else if (r.state === "withdrawn" && !withdrew) void load(); // the group may be gone
    }),
  ];
  void load();
  return {
    el,
    close: () => {
      closed = true;
      for (const off of offs) off();
      render(null, el);
    },
  };
}

interface AskingProps {
  question: string;
  ask: (values: FormData) => Promise<void>;
  withdraw: () => Promise<void>;
  failed: (err: unknown) => void;
}

function Asking({ question, ask, withdraw, failed }: AskingProps) {
  const state = useSignal<"new" | "asked" | "withdrawn">("new");
  if (state.value === "withdrawn") return <p role="status">{g.withdrawn}</p>;
  if (state.value === "asked")
    return (
      <div class="stack">
        <p role="status">{g.asked}</p>
        <Act run={() => withdraw().then(() => (state.value = "withdrawn"))} failed={failed}>
          {g.withdraw}
        </Act>
      </div>
    );
  return (
    <Form
      class="stack"
      submit={(values) => ask(values).then(() => void (state.value = "asked"))}
      fields={<Input label={question || g.answer} name="answer" hint={question && g.answer} maxlength={200} />}
    >
      <div class="row">
        <button type="submit" class="primary">
          {g.askToJoin}
        </button>
      </div>
    </Form>
  );
}
