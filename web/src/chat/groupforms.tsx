// The dialogs of a group: invitations, links, requests, bans, an announcement, settings.

import { useSignal } from "@preact/signals";
import type { Group, GroupMembership, GroupSelfUpdate, GroupUpdate } from "@stoa-dev/client";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { ago } from "../days";
import { nameOf } from "../person";
import { PictureChooser } from "../picture";
import { authed, json } from "../session";
import { now } from "../api";
import { g } from "../texts/groups";
import { Act } from "../ui/act";
import { Bans } from "../ui/bans";
import { CardLink } from "../ui/card";
import { headingOf, openDialog } from "../ui/dialog";
import { GroupFace } from "../ui/face";
import { useKeptFocus } from "../ui/focus";
import { Area, CloseRow, Fault, Form, Input, SaveRow, Select, textOf, useFault } from "../ui/form";
import { Links } from "../ui/links";
import { Person } from "../ui/person";
import { FriendPicks, friendsOf } from "./newgroup";
import { ask, type ChatContext } from "./context";

const USES = [0, 1, 10, 100];

interface GroupProps {
  group: string;
  ctx: ChatContext;
  close: () => void;
}

/** The address of a group for users who are not in it. */
const Address = ({ group, hidden = false }: { group: string; hidden?: boolean }) => (
  <Input
    label={g.address}
    name="address"
    hint={g.addressHint}
    hidden={hidden}
    readonly
    value={`${location.origin}/#/group/${group}`}
    onFocus={(e) => e.currentTarget.select()}
  />
);

/** Adds friends. */
export function invite(group: string, ctx: ChatContext): void {
  void ctx.people.want().then(() => {
    openDialog(g.invite, (close) => <Invite group={group} ctx={ctx} close={close} />);
  }, ctx.failed);
}

function Invite({ group, ctx, close }: GroupProps) {
  const friends = friendsOf(ctx).filter((f) => !ctx.connection.groups.member(group, f.user.id));
  if (friends.length === 0)
    return (
      <div class="stack">
        <p class="muted">{ctx.people.friends.length === 0 ? g.noFriends : g.allIn}</p>
        <CloseRow close={close} />
      </div>
    );
  const submit = async (values: FormData) => {
    const users = values.getAll("friend") as string[];
    if (users.length > 0) await ask(ctx, "groups.invite", { path: { group }, body: { users } });
    close();
  };
  return (
    <Form class="stack" submit={submit}>
      <FriendPicks friends={friends} />
      <SaveRow close={close} text={g.inviteDo} />
    </Form>
  );
}

/** Creates links, and copies and revokes them. */
export function links(group: string, ctx: ChatContext): void {
  const path = { group };
  const open = ctx.connection.groups.get(group)?.group.joins !== "invited";
  const create = (values: FormData) =>
    ask(ctx, "groups.new_link", {
      path,
      body: { hours: Number(values.get("hours")), uses: Number(values.get("uses")) },
    });
  openDialog(g.links, (close) => (
    <>
      <p class="muted">{g.linksHint}</p>
      <Links
        texts={g}
        place="join"
        uses={(link) => g.linkUsed(link.uses, link.most ?? 0)}
        load={async () => (await ask(ctx, "groups.links", { path })).links}
        create={create}
        revoke={(link) => ask(ctx, "groups.revoke_link", { path: { group, link } })}
      >
        <Select
          label={g.linkUses}
          name="uses"
          values={USES}
          text={(n) => (n === 0 ? g.anyNumber : g.people(n))}
          chosen={0}
        />
      </Links>
      {open && <Address group={group} />}
      <CloseRow close={close} />
    </>
  ));
}

/** Shows the card of the group, for a scan. */
export const card = (group: string) =>
  openDialog(g.card, (close) => (
    <>
      <CardLink path={`/v1/groups/${group}/card`} words={g.cardWords} />
      <CloseRow close={close} />
    </>
  ));

/** Answers requests to join. */
export const requests = (group: string, ctx: ChatContext) =>
  openDialog(g.requests, (close) => <Requests group={group} ctx={ctx} close={close} />);

function Requests({ group, ctx, close }: GroupProps) {
  const { fault, failed } = useFault();
  const list = useRef<HTMLUListElement>(null);
  const waiting = ctx.connection.groups.requests(group);
  useKeptFocus(list, () => list.current?.querySelector("button") ?? headingOf(list.current));
  const answer = (request: string, yes: boolean) => {
    fault.value = "";
    return ask(ctx, yes ? "groups.accept" : "groups.refuse", { path: { group, request } });
  };
  return (
    <>
      <p class="muted" hidden={waiting.length > 0}>
        {g.noRequests}
      </p>
      <ul class="persons" ref={list}>
        {waiting.map((r) => (
          <Person
            key={r.id}
            user={r.user}
            lines={[r.answer && <span class="quote">{r.answer}</span>, ago(r.created, now())]}
          >
            <Act kind="primary" run={() => answer(r.id, true)} failed={failed} label={g.acceptName(nameOf(r.user))}>
              {g.accept}
            </Act>
            <Act run={() => answer(r.id, false)} failed={failed} label={g.refuseName(nameOf(r.user))}>
              {g.refuse}
            </Act>
          </Person>
        ))}
      </ul>
      <Fault text={fault} />
      <CloseRow close={close} />
    </>
  );
}

/** Lists the banned users. */
export const bans = (group: string, ctx: ChatContext) =>
  openDialog(g.bans, (close) => (
    <>
      <Bans
        texts={g}
        load={(cursor) => ask(ctx, "groups.bans", { path: { group }, query: { limit: 50, ...(cursor && { cursor }) } })}
        lift={(user) => ask(ctx, "groups.unban", { path: { group, user } })}
      />
      <CloseRow close={close} />
    </>
  ));

/** Publishes an announcement, or removes it. */
export function announce(group: string, ctx: ChatContext): void {
  const { announcement = "" } = ctx.connection.groups.get(group)?.group ?? {};
  openDialog(g.announce, (close) => {
    const submit = async (values: FormData) => {
      await ask(ctx, "groups.update", { path: { group }, body: { announcement: textOf(values, "announcement") } });
      close();
    };
    const fields = (
      <Area label={g.announcement} name="announcement" hint={g.announceHint} text={announcement} maxlength={2000} />
    );
    return (
      <Form class="stack" submit={submit} fields={fields}>
        <SaveRow close={close} text={g.publish} />
      </Form>
    );
  });
}

/** Changes the user's own settings of a group. */
export function mine(group: string, ctx: ChatContext): void {
  const me = ctx.connection.groups.get(group)?.me;
  if (!me) return;
  openDialog(g.mine, (close) => {
    const submit = async (values: FormData) => {
      const body: GroupSelfUpdate = {
        nickname: textOf(values, "nickname"),
        remark: textOf(values, "remark"),
        notify: values.get("notify") as (typeof me)["notify"],
      };
      await ask(ctx, "groups.set_me", { path: { group }, body });
      close();
    };
    const fields = (
      <>
        <Input label={g.nickname} name="nickname" hint={g.nicknameHint} maxlength={40} defaultValue={me.nickname} />
        <Input label={g.remark} name="remark" hint={g.remarkHint} maxlength={40} defaultValue={me.remark} />
        <Select
          label={g.notify}
          name="notify"
          values={["all", "mentions", "none"] as const}
          text={(v) => g.notifies[v]}
          chosen={me.notify}
        />
      </>
    );
    return (
      <Form class="stack" submit={submit} fields={fields}>
        <SaveRow close={close} />
      </Form>
    );
  });
}

/** Changes the group's picture and name and, for the owner, who may join and invite. */
export function settings(group: string, ctx: ChatContext): void {
  const is = ctx.connection.groups.get(group)?.group;
  if (is)
    openDialog(g.settings, (close) => (
      <>
        <Picture group={group} ctx={ctx} />
        <Settings group={group} ctx={ctx} is={is} close={close} />
      </>
    ));
}

function Picture({ group, ctx }: Omit<GroupProps, "close">) {
  const { groups } = ctx.connection;
  const { name = "", picture = "" } = groups.get(group)?.group ?? {};
  const path = `/v1/groups/${group}`;
  return (
    <PictureChooser
      id="group-picture"
      face={<GroupFace name={name} picture={picture} large />}
      some={picture !== ""}
      store={async (body) =>
        groups.applyMembership(await json<GroupMembership>(`${path}/picture`, { method: "PUT", body }))
      }
      remove={async () => {
        await authed(`${path}/picture`, { method: "DELETE" });
        groups.applyMembership(await json<GroupMembership>(path));
      }}
      removeLabel={g.removePicture}
    />
  );
}

// Settings has the fields of the group at the opening of the dialog. Unchanged fields are not sent.
function Settings({ group, ctx, is, close }: GroupProps & { is: Group }) {
  const joins = useSignal(is.joins);
  const owner = useRef(ctx.connection.groups.may(group, "configure")).current;
  const submit = async (values: FormData) => {
    const body: GroupUpdate = {};
    const name = textOf(values, "group_name");
    const question = textOf(values, "question");
    const inviters = values.get("inviters") as Group["inviters"];
    if (name !== is.name) body.name = name;
    if (owner) {
      if (joins.peek() !== is.joins) body.joins = joins.peek();
      if (question !== (is.question ?? "")) body.question = question;
      if (inviters !== is.inviters) body.inviters = inviters;
    }
    if (Object.keys(body).length > 0) await ask(ctx, "groups.update", { path: { group }, body });
    close();
  };
  const rules: ComponentChildren = owner && (
    <>
      <Select
        label={g.joins}
        name="joins"
        values={["invited", "asking", "open"] as const}
        text={(v) => g.joinsOf[v]}
        chosen={is.joins}
        changed={(v) => (joins.value = v)}
      />
      <Input
        label={g.question}
        name="question"
        hidden={joins.value !== "asking"}
        maxlength={200}
        defaultValue={is.question}
      />
      <Select
        label={g.inviters}
        name="inviters"
        values={["member", "admin"] as const}
        text={(v) => g.invitersOf[v]}
        chosen={is.inviters}
      />
    </>
  );
  const fields = (
    <>
      <Input label={g.name} name="group_name" required maxlength={60} defaultValue={is.name} />
      {rules}
    </>
  );
  return (
    <Form class="stack" submit={submit} fields={fields}>
      {owner && <Address group={group} hidden={joins.value === "invited"} />}
      <SaveRow close={close} />
    </Form>
  );
}
