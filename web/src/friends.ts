// Friends: search, requests, the list, blocked users.

import type { Block, Friend, FriendRequest, FriendUpdate, User } from "@stoa-dev/client";
import { now } from "./api";
import { personPanel } from "./ask";
import { act, twice } from "./buttons";
import { myCard } from "./card";
import { ago, dateOf } from "./days";
import { dialog } from "./dialog";
import { h, put } from "./dom";
import { field, form, say } from "./form";
import type { Box, People } from "./people";
import { calledBy, nameOf, personRow } from "./person";
import { rows } from "./rows";
import { Ended } from "./session";
import { t } from "./texts";
import type { View } from "./view";

const met = (source: string | undefined) => source && t.people.met(source);

export function friends(me: User, people: People, fail: (text: string) => void): View {
  const closed = new AbortController();
  const failed = (err: unknown) => {
    if (!(err instanceof Ended) && !closed.signal.aborted) fail(say(err));
  };
  const older = (what: Box | "blocks") => act(t.words.showMore, "link", () => people.older(what), failed);
  const heading = (id: string, text: string) => h("h2", { id, tabindex: -1 }, text);

  // ---- search ----
  const who = field(t.people.who, {
    name: "who",
    required: true,
    maxlength: 254,
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
  });
  const result = h("div");
  const nobody = h("p", { class: "none", role: "status" });
  const search = form(
    { class: "search", role: "search" },
    [who],
    async () => {
      put(result);
      nobody.textContent = "";
      const p = await people.find(who.input.value.trim());
      if (!p) return void (nobody.textContent = t.people.nobody);
      const panel = personPanel(p, { source: "search" }, { me: me.id, people, signal: closed.signal, failed });
      put(result, panel);
      panel.querySelector("h2")!.focus();
    },
    h("button", { type: "submit", class: "primary" }, t.people.find),
    nobody,
  );

  // ---- requests ----
  const inTitle = heading("in-title", t.people.requests);
  const inList = h("ul", { class: "persons", "data-box": "in" });
  const inMore = older("in");
  const showIn = rows<FriendRequest>(
    inList,
    (r) => r.id,
    (r) =>
      personRow(
        r.from,
        [nameOf(r.from)],
        [
          r.message && h("span", { class: "quote" }, r.message),
          [met(r.source), ago(r.created, now())].filter(Boolean).join(" · "),
        ],
        act(t.people.accept, "primary", () => people.accept(r.id), failed, t.people.acceptName(nameOf(r.from))),
        act(t.people.refuse, "secondary", () => people.refuse(r.id), failed, t.people.refuseName(nameOf(r.from))),
      ),
    inTitle,
  );
  const inCard = h("section", { class: "card", "aria-labelledby": "in-title", hidden: true }, inTitle, inList, inMore);

  const outTitle = heading("out-title", t.people.asked);
  const outList = h("ul", { class: "persons", "data-box": "out" });
  const outMore = older("out");
  const showOut = rows<FriendRequest>(
    outList,
    (r) => r.id,
    (r) =>
      personRow(
        r.to,
        [nameOf(r.to)],
        [
          r.message && h("span", { class: "quote" }, r.message),
          `${ago(r.created, now())} · ${t.people.goodUntil(dateOf(r.expires))}`,
        ],
        act(t.people.withdraw, "secondary", () => people.withdraw(r.id), failed, t.people.withdrawName(nameOf(r.to))),
      ),
    outTitle,
  );
  const outCard = h(
    "section",
    { class: "card", "aria-labelledby": "out-title", hidden: true },
    outTitle,
    outList,
    outMore,
  );

  // ---- the list ----
  const listTitle = heading("list-title", t.people.friends);
  const tags = h("div", { class: "chips", role: "group", "aria-label": t.people.withTag });
  const list = h("ul", { class: "persons", "data-list": "friends" });
  const none = h("div", { class: "empty" });
  let tag = ""; // the shown tag; "" shows all
  const showList = rows<Friend>(
    list,
    (f) => f.user.id,
    (f) =>
      personRow(
        f.user,
        [calledBy(f), f.tag && h("span", { class: "tag" }, f.tag)],
        [
          f.remark && nameOf(f.user),
          [f.streak !== undefined && t.people.streak(f.streak), met(f.source), t.people.since(dateOf(f.since))]
            .filter(Boolean)
            .join(" · "),
        ],
        !f.user.deleted &&
          h(
            "a",
            { class: "secondary", href: `#/chats/${f.user.id}`, "aria-label": t.people.writeTo(calledBy(f)) },
            t.people.write,
          ),
        h(
          "button",
          {
            type: "button",
            class: "secondary",
            "aria-haspopup": "dialog",
            "aria-label": t.people.editName(calledBy(f)),
            onclick: () => edit(f),
          },
          t.people.edit,
        ),
      ),
    listTitle,
  );

  function drawList(): void {
    const all = people.friends;
    const known = [...new Set(all.flatMap((f) => (f.tag ? [f.tag] : [])))].sort((a, b) => a.localeCompare(b));
    if (!known.includes(tag)) tag = "";
    const chip = (value: string, text: string) =>
      h(
        "button",
        { type: "button", class: "chip", "aria-pressed": String(value === tag), onclick: () => choose(value) },
        text,
      );
    const focused = tags.contains(document.activeElement);
    put(tags, ...(known.length > 0 ? [chip("", t.people.all), ...known.map((name) => chip(name, name))] : []));
    tags.hidden = known.length === 0;
    if (focused) (tags.querySelector("[aria-pressed=true]") as HTMLElement | null)?.focus();
    showList(tag ? all.filter((f) => f.tag === tag) : all);
    listTitle.textContent = t.people.friendCount(all.length);
    none.hidden = all.length > 0;
    if (people.ready) put(none, h("p", {}, t.people.none));
    else if (people.fault)
      put(
        none,
        h("p", {}, `${t.people.notRead} ${say(people.fault)}`),
        act(t.words.tryAgain, "secondary", () => people.want(), failed),
      );
    else put(none, h("p", {}, t.words.moment));
  }

  function choose(value: string): void {
    tag = value;
    drawList();
  }

  function edit(f: Friend): void {
    const remark = field(t.people.remark, {
      name: "remark",
      maxlength: 40,
      autocomplete: "off",
      placeholder: nameOf(f.user),
      value: f.remark ?? "",
    });
    const group = field(
      t.people.tag,
      { name: "tag", maxlength: 20, autocomplete: "off", value: f.tag ?? "" },
      t.people.tagHint,
    );
    const order = field(
      t.people.place,
      { name: "order", type: "number", required: true, min: -1000000, max: 1000000, step: 1, value: f.order },
      t.people.placeHint,
    );
    dialog(
      calledBy(f),
      (close) => {
        const fault = h("p", { class: "fault form-fault", role: "alert" });
        const wrong = (err: unknown) => void (err instanceof Ended || (fault.textContent = say(err)));
        const then = (run: () => Promise<void>) => () => run().then(close);
        return [
          form(
            { class: "stack" },
            [remark, group, order],
            async () => {
              const body: FriendUpdate = {};
              if (remark.input.value !== (f.remark ?? "")) body.remark = remark.input.value;
              if (group.input.value !== (f.tag ?? "")) body.tag = group.input.value;
              if (Number(order.input.value) !== f.order) body.order = Number(order.input.value);
              if (Object.keys(body).length > 0) await people.change(f.user.id, body);
              close();
            },
            h(
              "div",
              { class: "row" },
              h("button", { type: "submit", class: "primary" }, t.words.save),
              h("button", { type: "button", class: "link", onclick: close }, t.words.cancel),
            ),
          ),
          h(
            "div",
            { class: "stack tight leave" },
            twice(
              t.people.remove,
              t.people.removeSure,
              then(() => people.remove(f.user.id)),
              wrong,
              t.people.removeNote,
            ),
            !f.user.deleted &&
              twice(
                t.people.block,
                t.people.blockSure,
                then(() => people.block(f.user.id)),
                wrong,
                t.people.blockNote,
              ),
            fault,
          ),
        ];
      },
      // The opener is gone if the row was drawn again.
      () => (list.querySelector<HTMLElement>(`[data-user="${f.user.id}"] button`) ?? listTitle).focus(),
    );
  }

  // ---- blocked users ----
  const blockTitle = heading("block-title", t.people.blocked);
  const blockList = h("ul", { class: "persons", "data-list": "blocks" });
  const blockMore = older("blocks");
  const showBlocks = rows<Block>(
    blockList,
    (b) => b.user.id,
    (b) =>
      personRow(
        b.user,
        [nameOf(b.user)],
        [t.people.blockedSince(dateOf(b.since))],
        act(
          t.people.unblock,
          "secondary",
          () => people.unblock(b.user.id),
          failed,
          t.people.unblockName(nameOf(b.user)),
        ),
      ),
    blockTitle,
  );
  const blockCard = h(
    "section",
    { class: "card", "aria-labelledby": "block-title", hidden: true },
    blockTitle,
    blockList,
    blockMore,
  );

  function show(): void {
    showIn(people.requests.in);
    inCard.hidden = people.requests.in.length === 0;
    inMore.hidden = !people.more.in;
    showOut(people.requests.out);
    outCard.hidden = people.requests.out.length === 0;
    outMore.hidden = !people.more.out;
    drawList();
    showBlocks(people.blocks);
    blockCard.hidden = people.blocks.length === 0;
    blockMore.hidden = !people.more.blocks;
    // If the card with the focus becomes hidden, the focus moves to the list.
    if ([inCard, outCard, blockCard].some((card) => card.hidden && card.contains(document.activeElement)))
      listTitle.focus({ preventScroll: true });
    look();
  }

  // Requests on the screen count as seen, so the red dot is removed.
  let looking = false;
  function look(): void {
    if (looking || !people.ready || people.unread === 0 || document.visibilityState !== "visible") return;
    looking = true;
    people
      .seen()
      .catch(failed)
      .finally(() => (looking = false));
  }
  document.addEventListener("visibilitychange", look, { signal: closed.signal });

  people.watch(show, closed.signal);
  show();
  void people.want();

  return {
    el: h(
      "div",
      { class: "people" },
      h("h1", {}, t.people.friends),
      h(
        "div",
        { class: "column" },
        inCard,
        h("section", { class: "card", "aria-labelledby": "list-title" }, listTitle, tags, none, list),
        outCard,
      ),
      h(
        "div",
        { class: "column" },
        h(
          "section",
          { class: "card", "aria-labelledby": "find-title" },
          h("h2", { id: "find-title" }, t.people.findSomebody),
          search,
          result,
        ),
        myCard(closed.signal),
        blockCard,
      ),
    ),
    close: () => closed.abort(),
  };
}
