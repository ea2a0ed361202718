// One user and their relation to the caller. The user was found by search or by a card.

import type { FriendRequestNew, Profile, Relation } from "@stoa-dev/client";
import { act } from "./buttons";
import { h, put, type Child } from "./dom";
import { field, form } from "./form";
import type { People } from "./people";
import { face, nameOf } from "./person";
import { t } from "./texts";

interface Around {
  me: string; // the user's id
  people: People;
  signal: AbortSignal;
  failed: (err: unknown) => void;
}

/** Shows a user with the caller's possible actions. how is the way the user was found. */
export function personPanel(p: Profile, how: { card: string } | { source: string }, on: Around): HTMLElement {
  const { people } = on;
  const body = h("div", { class: "stack" });
  const said = h("p", { class: "saved", role: "status" });
  const title = h("h2", { tabindex: -1 }, nameOf(p));
  let relation: Relation | undefined;
  let asked = 0; // the number of requests: only the last response counts
  let shown = "";

  function standing(): string {
    if (p.id === on.me) return "self";
    if (p.deleted) return "deleted";
    if (!relation) return "wait";
    if (relation.blocked) return "blocked";
    if (relation.friend) return "friend";
    if (relation.asks) return "asks";
    if (relation.asked) return "asked";
    return "none";
  }

  // The lists of the page may lack this user, because they have only their first pages.
  async function look(): Promise<void> {
    const n = ++asked;
    const now = await people.relation(p.id);
    if (n !== asked) return;
    relation = now;
    show();
  }

  function show(): void {
    const now = standing();
    if (now === shown) return; // text in a field must not be lost
    const focused = body.contains(document.activeElement);
    shown = now;
    put(body, ...draw(now));
    if (focused) title.focus();
  }

  function draw(now: string): Child[] {
    const text = (says: string) => h("p", { class: "muted" }, says);
    switch (now) {
      case "wait":
        return [text(t.words.moment)];
      case "self":
        return [text(t.people.self)];
      case "deleted":
        return [text(t.people.accountDeleted)];
      case "blocked":
        return [
          text(t.people.youBlocked),
          h(
            "div",
            { class: "row" },
            act(t.people.unblock, "secondary", () => people.unblock(p.id), on.failed),
          ),
        ];
      case "friend":
        return [h("p", {}, t.people.areFriends, h("a", { href: "#/friends" }, t.people.toFriends))];
      case "asks":
        return [
          text(t.people.theyAsk),
          relation?.asks?.message ? h("p", { class: "quote" }, relation.asks.message) : null,
          h(
            "div",
            { class: "row" },
            act(t.people.accept, "primary", () => people.accept(relation!.asks!.id), on.failed),
            act(t.people.refuse, "secondary", () => people.refuse(relation!.asks!.id), on.failed),
          ),
        ];
      case "asked":
        return [
          text(t.people.youAsked),
          h(
            "div",
            { class: "row" },
            act(t.people.withdraw, "secondary", () => people.withdraw(relation!.asked!.id), on.failed),
          ),
        ];
      default:
        return [askForm()];
    }
  }

  function askForm(): HTMLElement {
    const message = field(t.people.message, { name: "message", maxlength: 200, placeholder: t.people.messageExample });
    const remark = field(t.people.remarkOptional, { name: "remark", maxlength: 40, autocomplete: "off" });
    return form(
      { class: "stack" },
      [message, remark],
      async () => {
        const body: FriendRequestNew = "card" in how ? { card: how.card } : { user: p.id, source: how.source };
        if (message.input.value) body.message = message.input.value;
        if (remark.input.value) body.remark = remark.input.value;
        const { request } = await people.ask(body);
        said.textContent = request.state === "accepted" ? t.people.friendsNow : t.people.requestSent;
      },
      h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, t.people.ask)),
    );
  }

  show();
  if (p.id !== on.me && !p.deleted) {
    const lookAgain = () => void look().catch(on.failed);
    people.watch(lookAgain, on.signal);
    lookAgain();
    void people.want();
  }
  return h(
    "div",
    { class: "stack found", "data-user": p.id },
    h(
      "div",
      { class: "person" },
      face(p, true),
      h("div", { class: "person-text" }, title, p.bio ? h("p", { class: "bio" }, p.bio) : null),
    ),
    body,
    said,
  );
}
