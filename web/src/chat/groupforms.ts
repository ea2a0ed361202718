// The dialogs of a group: invitations, links, requests, bans, an announcement, settings.

import type { Group, GroupLink, GroupMembership, GroupSelfUpdate, GroupUpdate } from "@stoa-dev/client";
import { act, twice } from "../buttons";
import { cardAt } from "../card";
import { ago } from "../days";
import { dialog } from "../dialog";
import { h, put, type Child } from "../dom";
import { field, form, type Field } from "../form";
import { nameOf, personRow } from "../person";
import { pictureChooser } from "../picture";
import { authed, json } from "../session";
import { now } from "../api";
import { t } from "../texts";
import { g } from "../texts/groups";
import { friends } from "./newgroup";
import { ask, groupFace, type ChatContext } from "./context";
import { momentOf } from "./when";

const LIVES = [1, 24, 168, 720]; // hours
const USES = [0, 1, 10, 100];

/** The address of a group for users who are not in it. */
const address = (path: string) => `${location.origin}/#/${path}`;

export const saveRow = (close: () => void, text = t.words.save) =>
  h(
    "div",
    { class: "row" },
    h("button", { type: "submit", class: "primary" }, text),
    h("button", { type: "button", class: "link", onclick: close }, t.words.cancel),
  );
export const closeRow = (close: () => void) =>
  h("div", { class: "row" }, h("button", { type: "button", class: "link", onclick: close }, g.close));
export const fault = () => h("p", { class: "fault form-fault", role: "alert" });
export const into = (el: HTMLElement) => (err: unknown) =>
  void (el.textContent = err instanceof Error ? err.message : String(err));

export function select<T extends string | number>(
  label: string,
  name: string,
  values: readonly T[],
  text: (v: T) => string,
  chosen: T,
  hint?: string,
): Field {
  const el = h("select", {}, ...values.map((value) => h("option", { value, selected: value === chosen }, text(value))));
  return field(label, { name }, hint, el);
}

export function area(label: string, name: string, value: string, most: number, hint?: string): Field {
  const el = h("textarea", { rows: 4, maxlength: most });
  el.value = value;
  return field(label, { name }, hint, el);
}

/** Adds friends. */
export function invite(group: string, ctx: ChatContext): void {
  void ctx.people.want().then(() => {
    const whom = friends(ctx, (user) => !ctx.connection.groups.member(group, user));
    dialog(g.invite, (close) => [
      whom.el
        ? form(
            { class: "stack" },
            [],
            async () => {
              const users = whom.chosen();
              if (users.length > 0) await ask(ctx, "groups.invite", { path: { group }, body: { users } });
              close();
            },
            whom.el,
            saveRow(close, g.inviteDo),
          )
        : h(
            "div",
            { class: "stack" },
            h("p", { class: "muted" }, ctx.people.friends.length === 0 ? g.noFriends : g.allIn),
            closeRow(close),
          ),
    ]);
  }, ctx.failed);
}

/** Creates links, and copies and revokes them. */
export function links(group: string, ctx: ChatContext): void {
  const life = select(g.linkLife, "hours", LIVES, g.hours, 168);
  const uses = select(g.linkUses, "uses", USES, (n) => (n === 0 ? g.anyNumber : g.people(n)), 0);
  const list = h("ul", { class: "group-links" });
  const none = h("p", { class: "muted" }, t.words.moment);
  const wrong = fault();
  const said = h("span", { class: "saved", role: "status" });
  const failed = into(wrong);
  const row = (l: GroupLink): HTMLLIElement => {
    const text = h("input", {
      type: "text",
      readonly: true,
      class: "link-text",
      "aria-label": g.linkLabel,
      onfocus: () => text.select(),
    });
    text.value = address(`join/${l.id}`);
    const copy = act(
      g.copy,
      "secondary",
      async () => {
        text.select();
        await navigator.clipboard.writeText(text.value);
        said.textContent = g.copied;
      },
      failed,
    );
    copy.hidden = !navigator.clipboard; // there is no clipboard outside secure contexts: the text can be selected
    const revoke = async () => {
      await ask(ctx, "groups.revoke_link", { path: { group, link: l.id } });
      el.remove();
      none.hidden = list.children.length > 0;
      life.input.focus();
    };
    const el = h(
      "li",
      { "data-link": l.id },
      text,
      h("p", { class: "hint" }, `${g.linkUsed(l.uses, l.most ?? 0)} · ${g.linkEnds(momentOf(l.expires))}`),
      h("div", { class: "row" }, copy, twice(g.revoke, g.revokeSure, revoke, failed)),
    );
    return el;
  };
  const show = (all: GroupLink[]) => {
    list.prepend(...all.map(row));
    none.textContent = g.noLinks;
    none.hidden = list.children.length > 0;
  };
  const open = ctx.connection.groups.get(group)?.group.joins !== "invited";
  dialog(g.links, (close) => [
    h("p", { class: "muted" }, g.linksHint),
    form(
      { class: "stack" },
      [life, uses],
      async () =>
        show([
          await ask(ctx, "groups.new_link", {
            path: { group },
            body: { hours: Number(life.input.value), uses: Number(uses.input.value) },
          }),
        ]),
      h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, g.newLink), said),
    ),
    wrong,
    none,
    list,
    open ? addressOf(group) : null,
    closeRow(close),
  ]);
  ask(ctx, "groups.links", { path: { group } }).then((got) => show(got.links), failed);
}

function addressOf(group: string): HTMLElement {
  const where = field(g.address, { name: "address", readonly: true, value: address(`group/${group}`) }, g.addressHint);
  where.input.addEventListener("focus", () => (where.input as HTMLInputElement).select());
  return where.el;
}

/** Shows the card of the group, for a scan. */
export function card(group: string): void {
  const gone = new AbortController();
  const wrong = fault();
  const said = h("span", { class: "saved", role: "status" });
  const shown = cardAt(
    `/v1/groups/${group}/card`,
    g.cardWords,
    { signal: gone.signal, failed: (err) => gone.signal.aborted || into(wrong)(err) },
    said,
  );
  const el = dialog(g.card, (close) => [
    ...shown.parts,
    h("div", { class: "row" }, shown.copy, said),
    wrong,
    closeRow(close),
  ]);
  el.addEventListener("close", () => gone.abort());
}

/** Answers requests to join. */
export function requests(group: string, ctx: ChatContext): void {
  const list = h("ul", { class: "persons" });
  const none = h("p", { class: "muted" }, g.noRequests);
  const wrong = fault();
  const failed = into(wrong);
  const gone = new AbortController();
  const show = () => {
    const waiting = ctx.connection.groups.requests(group);
    none.hidden = waiting.length > 0;
    const answer = (request: string, yes: boolean) => async () => {
      wrong.textContent = "";
      await ask(ctx, yes ? "groups.accept" : "groups.refuse", { path: { group, request } });
    };
    const had = list.contains(document.activeElement);
    put(
      list,
      ...waiting.map((r) =>
        personRow(
          r.user,
          [nameOf(r.user)],
          [r.answer && h("span", { class: "quote" }, r.answer), ago(r.created, now())],
          act(g.accept, "primary", answer(r.id, true), failed, g.acceptName(nameOf(r.user))),
          act(g.refuse, "secondary", answer(r.id, false), failed, g.refuseName(nameOf(r.user))),
        ),
      ),
    );
    if (had) (list.querySelector<HTMLElement>("button") ?? el.querySelector<HTMLElement>("h2"))?.focus();
  };
  const el = dialog(g.requests, (close) => [none, list, wrong, closeRow(close)]);
  el.addEventListener("close", () => gone.abort());
  ctx.connection.groups.watch(show, gone.signal);
  show();
}

/** Lists the banned users. */
export function bans(group: string, ctx: ChatContext): void {
  const list = h("ul", { class: "persons" });
  const none = h("p", { class: "muted" }, t.words.moment);
  const wrong = fault();
  const failed = into(wrong);
  let cursor = "";
  const read = async () => {
    const page = await ask(ctx, "groups.bans", { path: { group }, query: { limit: 50, ...(cursor && { cursor }) } });
    for (const b of page.bans) {
      const lift = async () => {
        await ask(ctx, "groups.unban", { path: { group, user: b.user.id } });
        row.remove();
        none.hidden = list.children.length > 0;
        el.querySelector<HTMLElement>("h2")?.focus();
      };
      const row = personRow(
        b.user,
        [nameOf(b.user)],
        [ago(b.at, now())],
        act(g.lift, "secondary", lift, failed, g.liftName(nameOf(b.user))),
      );
      list.append(row);
    }
    cursor = page.next ?? "";
    more.hidden = !cursor;
    none.textContent = g.noBans;
    none.hidden = list.children.length > 0;
  };
  const more = act(t.words.showMore, "link", read, failed);
  more.hidden = true;
  const el = dialog(g.bans, (close) => [none, list, more, wrong, closeRow(close)]);
  read().catch(failed);
}

/** Publishes an announcement, or removes it. */
export function announce(group: string, ctx: ChatContext): void {
  const text = area(
    g.announcement,
    "announcement",
    ctx.connection.groups.get(group)?.group.announcement ?? "",
    2000,
    g.announceHint,
  );
  dialog(g.announce, (close) => [
    form(
      { class: "stack" },
      [text],
      async () => {
        await ask(ctx, "groups.update", { path: { group }, body: { announcement: text.input.value.trim() } });
        close();
      },
      saveRow(close, g.publish),
    ),
  ]);
}

/** Changes the user's own settings of a group. */
export function mine(group: string, ctx: ChatContext): void {
  const me = ctx.connection.groups.get(group)?.me;
  if (!me) return;
  const nickname = field(
    g.nickname,
    { name: "nickname", maxlength: 40, autocomplete: "off", value: me.nickname ?? "" },
    g.nicknameHint,
  );
  const remark = field(
    g.remark,
    { name: "remark", maxlength: 40, autocomplete: "off", value: me.remark ?? "" },
    g.remarkHint,
  );
  const notify = select(g.notify, "notify", ["all", "mentions", "none"] as const, (v) => g.notifies[v], me.notify);
  dialog(g.mine, (close) => [
    form(
      { class: "stack" },
      [nickname, remark, notify],
      async () => {
        const body: GroupSelfUpdate = {
          nickname: nickname.input.value.trim(),
          remark: remark.input.value.trim(),
          notify: notify.input.value as (typeof me)["notify"],
        };
        await ask(ctx, "groups.set_me", { path: { group }, body });
        close();
      },
      saveRow(close),
    ),
  ]);
}

/** Changes the group's picture and name and, for the owner, who may join and invite. */
export function settings(group: string, ctx: ChatContext): void {
  const is = ctx.connection.groups.get(group)?.group;
  if (!is) return;
  const name = field(g.name, {
    name: "group_name",
    required: true,
    maxlength: 60,
    autocomplete: "off",
    value: is.name,
  });
  const joins = select(g.joins, "joins", ["invited", "asking", "open"] as const, (v) => g.joinsOf[v], is.joins);
  const question = field(g.question, {
    name: "question",
    maxlength: 200,
    autocomplete: "off",
    value: is.question ?? "",
  });
  const inviters = select(g.inviters, "inviters", ["member", "admin"] as const, (v) => g.invitersOf[v], is.inviters);
  const owner = ctx.connection.groups.may(group, "configure");
  const where = addressOf(group);
  const fits = () => {
    question.el.hidden = joins.input.value !== "asking";
    where.hidden = joins.input.value === "invited";
  };
  joins.input.addEventListener("change", fits);
  fits();
  const further: Child[] = owner ? [where] : [];
  const picture = pictureChooser({
    face: () => groupFace(is.name, ctx.connection.groups.get(group)?.group.picture, true),
    there: () => Boolean(ctx.connection.groups.get(group)?.group.picture),
    keep: async (file) =>
      ctx.connection.groups.applyMembership(
        await json<GroupMembership>(`/v1/groups/${group}/picture`, { method: "PUT", body: file }),
      ),
    remove: async () => {
      await authed(`/v1/groups/${group}/picture`, { method: "DELETE" });
      ctx.connection.groups.applyMembership(await json<GroupMembership>(`/v1/groups/${group}`));
    },
    removeLabel: g.removePicture,
  });
  dialog(g.settings, (close) => [
    picture.el,
    form(
      { class: "stack" },
      owner ? [name, joins, question, inviters] : [name],
      async () => {
        const body: GroupUpdate = {};
        if (name.input.value.trim() !== is.name) body.name = name.input.value.trim();
        if (owner) {
          if (joins.input.value !== is.joins) body.joins = joins.input.value as Group["joins"];
          if (question.input.value.trim() !== (is.question ?? "")) body.question = question.input.value.trim();
          if (inviters.input.value !== is.inviters) body.inviters = inviters.input.value as Group["inviters"];
        }
        if (Object.keys(body).length > 0) await ask(ctx, "groups.update", { path: { group }, body });
        close();
      },
      ...further,
      saveRow(close),
    ),
  ]);
}
