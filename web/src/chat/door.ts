// The page before a group, for users who are not in it. The group's address or an invitation link leads here.

import { Refused, type GroupMembership } from "@stoa-dev/client";
import { act, unloaded } from "../buttons";
import { h, put, type Child } from "../dom";
import { field, form } from "../form";
import type { Connection } from "../connection";
import { Ended } from "../session";
import { g } from "../texts/groups";
import type { View } from "../view";
import { t } from "../texts";
import { explain, groupFace } from "./context";

/** Shows the group of a link or of an id. */
export function doorView(
  to: { link: string } | { group: string },
  connection: Connection,
  fail: (text: string) => void,
): View {
  const closed = new AbortController();
  const failed = (err: unknown) => {
    if (!(err instanceof Ended) && !closed.signal.aborted) fail(explain(err));
  };
  const body = h(
    "section",
    { class: "card door", "aria-label": g.doorLabel },
    h("p", { class: "muted" }, t.words.moment),
  );
  let shown = ""; // the group's id
  let withdrew = false; // the user has withdrawn the request here

  async function load(): Promise<void> {
    try {
      const there =
        "link" in to
          ? await connection.client.call("groups.look", { path: { link: to.link } })
          : await connection.client.call("groups.get", { path: { group: to.group } });
      if (!closed.signal.aborted) show(there);
    } catch (err) {
      if (err instanceof Refused && err.status === 404)
        put(body, h("p", { class: "none" }, g.worthless), h("a", { href: "#/chats" }, t.frame.titles.chats));
      else if (shown) failed(err);
      else if (!(err instanceof Ended)) put(body, unloaded(explain(err), load));
    }
  }

  function show({ group, me }: GroupMembership): void {
    shown = group.id;
    const enter = () => void (location.hash = `#/chats/g:${group.id}`);
    const join = async () => {
      if ("link" in to)
        connection.groups.applyMembership(await connection.client.call("groups.join", { path: { link: to.link } }));
      else {
        await connection.client.call("groups.ask", { path: { group: group.id }, body: {} });
        connection.groups.applyMembership(await connection.client.call("groups.get", { path: { group: group.id } }));
      }
      enter();
    };
    const actions = (): Child[] => {
      if (me) {
        const link = h("a", { class: "primary small", href: `#/chats/g:${group.id}` }, g.toChat);
        return [h("p", { class: "muted" }, g.inAlready), link];
      }
      if ("link" in to || group.joins === "open")
        return [h("div", { class: "row" }, act(g.join, "primary", join, failed))];
      if (group.joins === "asking") return [asking(group.id, group.question ?? "")];
      return [h("p", { class: "muted" }, g.onlyInvited)];
    };
    put(
      body,
      h(
        "div",
        { class: "door-head" },
        groupFace(group.name, group.picture, true),
        h(
          "div",
          {},
          h("h2", { tabindex: -1 }, group.name),
          h("p", { class: "muted" }, `${g.members(group.members)} · ${g.openFor[group.joins]}`),
        ),
      ),
      ...actions(),
    );
  }

  function asking(group: string, question: string): HTMLElement {
    const answer = field(
      question || g.answer,
      { name: "answer", maxlength: 200, autocomplete: "off" },
      question ? g.answer : undefined,
    );
    const el: HTMLFormElement = form(
      { class: "stack" },
      [answer],
      async () => {
        try {
          await connection.client.call("groups.ask", { path: { group }, body: { answer: answer.input.value.trim() } });
        } catch (err) {
          throw err instanceof Error && !(err instanceof Ended) ? new Error(explain(err)) : err;
        }
        const withdraw = async () => {
          withdrew = true;
          await connection.client.call("groups.withdraw", { path: { group } });
          put(el, h("p", { role: "status" }, g.withdrawn));
        };
        put(el, h("p", { role: "status" }, g.asked), act(g.withdraw, "secondary", withdraw, failed));
      },
      h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, g.askToJoin)),
    );
    return el;
  }

  const offs = [
    connection.client.on("group.mine", ({ group }) => {
      if (group.id === shown) void load();
    }),
    connection.client.on("group.request_closed", (r) => {
      if (r.group !== shown) return;
      if (r.state === "refused") put(body, h("p", { role: "status" }, g.refused));
      else if (r.state === "withdrawn" && !withdrew) void load(); // the group may be gone
    }),
  ];
  void load();
  return {
    el: h("div", { class: "narrow" }, h("h1", {}, g.doorTitle), body),
    close: () => {
      closed.abort();
      for (const off of offs) off();
    },
  };
}
