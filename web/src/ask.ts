// One person, and how the user stands to them: found by search, or by a card.

import type { FriendRequestNew, Profile } from "./api";
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

/** Shows somebody with what the user can do; how names the way they were found. */
export function personPanel(p: Profile, how: { card: string } | { source: string }, on: Around): HTMLElement {
  const { people } = on;
  const body = h("div", { class: "stack" });
  const said = h("p", { class: "saved", role: "status" });
  const title = h("h2", { tabindex: -1 }, nameOf(p));
  let blocked = false;
  let shown = "";

  function standing(): string {
    if (p.id === on.me) return "self";
    if (p.deleted) return "deleted";
    if (!people.ready) return "wait";
    if (blocked || people.blocks.some((b) => b.user.id === p.id)) return "blocked";
    if (people.friends.some((f) => f.user.id === p.id)) return "friend";
    if (people.requests.in.some((r) => r.from.id === p.id)) return "asks";
    if (people.requests.out.some((r) => r.to.id === p.id)) return "asked";
    return "none";
  }

  function show(): void {
    const now = standing();
    if (now === shown) return; // what is being typed stays
    const focused = body.contains(document.activeElement);
    shown = now;
    put(body, ...draw(now));
    if (focused) title.focus();
  }

  function draw(now: string): Child[] {
    const text = (says: string) => h("p", { class: "muted" }, says);
    const asks = people.requests.in.find((r) => r.from.id === p.id);
    const asked = people.requests.out.find((r) => r.to.id === p.id);
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
          h("div", { class: "row" }, act(t.people.unblock, "secondary", () => people.unblock(p.id).then(() => ((blocked = false), show())), on.failed)),
        ];
      case "friend":
        return [h("p", {}, t.people.areFriends, h("a", { href: "#/friends" }, t.people.toFriends))];
      case "asks":
        return [
          text(t.people.theyAsk),
          asks?.message ? h("p", { class: "quote" }, asks.message) : null,
          h("div", { class: "row" }, act(t.people.accept, "primary", () => people.accept(asks!.id), on.failed), act(t.people.refuse, "secondary", () => people.refuse(asks!.id), on.failed)),
        ];
      case "asked":
        return [text(t.people.youAsked), h("div", { class: "row" }, act(t.people.withdraw, "secondary", () => people.withdraw(asked!.id), on.failed))];
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
  people.watch(show, on.signal);
  if (p.id !== on.me && !p.deleted) {
    void people.want().then(show);
    people.blocked(p.id).then((b) => ((blocked = b), show()), on.failed);
  }
  return h("div", { class: "stack found", "data-user": p.id }, h("div", { class: "person" }, face(p, true), h("div", { class: "person-text" }, title, p.bio ? h("p", { class: "bio" }, p.bio) : null)), body, said);
}
