// The panel next to a group's chat: members, invitations, settings, leaving. Only actions of the user's role are shown.

import type { GroupMember, GroupUpdate } from "@stoa-dev/client";
import { now } from "../api";
import { act, twice } from "../buttons";
import { dateOf } from "../days";
import { h, icon, put, type Child } from "../dom";
import { face } from "../person";
import { rows } from "../rows";
import { t } from "../texts";
import { g } from "../texts/groups";
import { announce, bans, card, invite, links, mine, requests, settings } from "./groupforms";
import { sign } from "./icons";
import { openMenu, type Item } from "./menu";
import { ask, groupFace, nameIn, type Talk } from "./talk";
import { untilWords } from "./when";

const HOUR = 3600_000;
const LONG = 9 * 365 * 24 * HOUR; // the server's limit is ten years
const FILTER_FROM = 12; // the number of members that adds a search field
const TYPED = 250; // ms after the last key until a search of the server starts
const FOUND = 50; // members on a page of the search
const PAST = new Date(0).toISOString(); // a mute until then has no effect

interface Row {
  member: GroupMember;
  name: string;
  note: string;
  muted: string;
}

export class Panel {
  readonly el: HTMLElement;

  readonly #title = h("h2", { id: "panel-title", tabindex: -1 }, g.about);
  readonly #head = h("div", { class: "panel-head" });
  readonly #news = h("section", { class: "panel-part", "aria-label": g.announcement });
  readonly #doings = h("div", { class: "doings" });
  readonly #leave = h("div", { class: "panel-part stack tight" });
  readonly #count = h("h3", { tabindex: -1 });
  readonly #filter = h("input", {
    type: "search",
    "aria-label": g.find,
    placeholder: g.find,
    autocomplete: "off",
    hidden: true,
    oninput: () => this.#search(),
  });
  readonly #nobody = h("p", { class: "muted", role: "status", hidden: true }, g.noMember);
  readonly #list = h("ul", { class: "members" });
  readonly #more: HTMLElement;
  readonly #fault = h("p", { class: "fault form-fault", role: "alert" });
  readonly #show: (items: Row[]) => void;
  #drawn = "";
  #seen = "";
  #leaving = "";
  #found: { query: string; members: GroupMember[]; next: string } | undefined; // from the server, if not all members are loaded
  #typed: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly group: string,
    private readonly talk: Talk,
    private readonly closed: () => void,
  ) {
    this.#more = act(
      t.words.showMore,
      "link",
      () => (this.#found ? this.#find(this.#found.next) : talk.line.groups.more(group)),
      this.#failed,
    );
    this.#show = rows<Row>(
      this.#list,
      (r) => r.member.user.id,
      (r) => this.#row(r),
      this.#count,
    );
    this.el = h(
      "aside",
      {
        class: "panel",
        "aria-labelledby": "panel-title",
        onkeydown: (e: KeyboardEvent) =>
          e.key === "Escape" && !e.defaultPrevented && (e.stopPropagation(), this.close()),
      },
      h(
        "header",
        { class: "room-head" },
        this.#title,
        h(
          "button",
          { type: "button", class: "round", "aria-label": g.closePanel, onclick: () => this.close() },
          icon("close"),
        ),
      ),
      h(
        "div",
        { class: "panel-body" },
        this.#head,
        this.#fault,
        this.#news,
        this.#doings,
        h(
          "section",
          { class: "panel-part", "aria-label": g.membersLabel },
          this.#count,
          this.#filter,
          this.#nobody,
          this.#list,
          this.#more,
        ),
        this.#leave,
      ),
    );
    this.draw();
    void talk.line.groups.want(group).catch(this.#failed);
  }

  focus(): void {
    this.#title.focus();
  }

  close(): void {
    if (!this.el.isConnected) return;
    this.el.remove();
    this.closed();
  }

  /** Draws the present state. */
  draw(): void {
    const { groups } = this.talk.line;
    const there = groups.get(this.group);
    if (!there) return;
    this.#drawMembers();
    // A part that does not depend on the members is drawn again only if it changes.
    const state = JSON.stringify([there, groups.requests(this.group).length]);
    if (state === this.#drawn) return;
    this.#drawn = state;
    const { group, me } = there;
    put(
      this.#head,
      groupFace(group.name, group.picture, true),
      h("p", { class: "panel-name" }, me.remark || group.name),
      h(
        "p",
        { class: "muted" },
        [me.remark && group.name, g.members(group.members), g.since(dateOf(group.created))].filter(Boolean).join(" · "),
      ),
    );
    this.#drawNews(group.announcement ?? "", group.announced ?? 0);
    this.#drawDoings();
    this.#drawLeave();
  }

  readonly #failed = (err: unknown) => {
    this.#fault.textContent = err instanceof Error ? err.message : String(err);
  };

  readonly #then = (work: Promise<unknown>) => {
    this.#fault.textContent = "";
    void work.catch(this.#failed);
  };

  #drawNews(text: string, announced: number): void {
    const { groups } = this.talk.line;
    const may = groups.may(this.group, "describe");
    const seen = h("p", { class: "hint", role: "status" }, this.#seen);
    this.#news.hidden = !text && !may;
    put(
      this.#news,
      text
        ? h(
            "div",
            { class: "strip announced" },
            sign("horn"),
            h(
              "div",
              { class: "strip-text" },
              h("p", { class: "strip-title" }, g.announcement),
              h("p", { class: "strip-said" }, text),
            ),
          )
        : null,
      text && may ? seen : null,
      may
        ? h(
            "button",
            {
              type: "button",
              class: "secondary",
              "aria-haspopup": "dialog",
              onclick: () => announce(this.group, this.talk),
            },
            g.announce,
          )
        : null,
    );
    if (!text || !may) return;
    ask(this.talk, "groups.seen", { path: { group: this.group } }).then((s) => {
      if (s.announced === announced) seen.textContent = this.#seen = g.seen(s.seen, s.members);
    }, this.#failed);
  }

  #drawDoings(): void {
    const { groups } = this.talk.line;
    const may = (verb: Parameters<typeof groups.may>[1]) => groups.may(this.group, verb);
    const doing = (
      shape: Parameters<typeof sign>[0],
      text: string,
      run: (group: string, talk: Talk) => void,
      ...more: Child[]
    ) =>
      h(
        "button",
        { type: "button", class: "doing", "aria-haspopup": "dialog", onclick: () => run(this.group, this.talk) },
        sign(shape),
        h("span", {}, text),
        ...more,
      );
    const waiting = groups.requests(this.group).length;
    const all = h("input", {
      type: "checkbox",
      name: "mute_all",
      onchange: () =>
        this.#then(
          ask(this.talk, "groups.update", {
            path: { group: this.group },
            body: { muted_until: all.checked ? new Date(Date.now() + LONG).toISOString() : PAST } satisfies GroupUpdate,
          }).catch((err) => {
            all.checked = !all.checked;
            throw err;
          }),
        ),
    });
    all.checked = Date.parse(groups.get(this.group)?.group.muted_until ?? "") > Date.now();
    const focused = [...this.#doings.querySelectorAll("button, input")].indexOf(document.activeElement!);
    put(
      this.#doings,
      may("invite") && doing("people", g.invite, invite),
      may("invite") && doing("link", g.links, links),
      may("invite") && doing("code", g.card, card),
      may("answer") &&
        doing("clock", g.requests, requests, waiting > 0 && h("span", { class: "badge" }, String(waiting))),
      doing("person", g.mine, mine),
      may("describe") && doing("pen", g.settings, settings),
      may("remove") && doing("cross", g.bans, bans),
      may("mute") && h("label", { class: "switch doing" }, sign("quiet"), h("span", {}, g.muteAll), all),
    );
    if (focused >= 0) [...this.#doings.querySelectorAll<HTMLElement>("button, input")][focused]?.focus();
  }

  #drawLeave(): void {
    const { groups } = this.talk.line;
    const owner = groups.may(this.group, "dissolve");
    const alone = groups.get(this.group)?.group.members === 1;
    // A pending confirmation must not be lost by other changes of the group.
    const state = `${owner} ${alone}`;
    if (state === this.#leaving) return;
    this.#leaving = state;
    const path = { group: this.group };
    put(
      this.#leave,
      owner && !alone ? h("p", { class: "hint" }, g.ownerStays) : null,
      owner
        ? null
        : twice(g.leave, g.leaveSure, async () => void (await ask(this.talk, "groups.leave", { path })), this.#failed),
      owner
        ? twice(
            g.dissolve,
            g.dissolveSure,
            async () => void (await ask(this.talk, "groups.dissolve", { path })),
            this.#failed,
            g.dissolveNote,
          )
        : null,
    );
  }

  #drawMembers(): void {
    const { groups } = this.talk.line;
    const all = groups.members(this.group);
    const total = groups.get(this.group)?.group.members ?? all.length;
    const more = groups.hasMore(this.group);
    this.#more.hidden = this.#found ? !this.#found.next : !more;
    this.#filter.hidden = !more && all.length < FILTER_FROM;
    this.#count.textContent = g.members(total);
    const query = this.#filter.hidden || this.#found ? "" : this.#filter.value.trim().toLowerCase();
    const list = (this.#found?.members.map((m) => groups.member(this.group, m.user.id) ?? m) ?? all).map(
      (member): Row => {
        const own = member.user.id === this.talk.me.id;
        const name = own ? groups.called(this.group, member.user.id) : nameIn(this.talk, member.user.id, this.group);
        const until = Date.parse(member.muted_until ?? "");
        return {
          member,
          name,
          note: [member.nickname, member.user.name].filter((other) => other && other !== name).join(" · "),
          muted: until > now() ? untilWords(until) : "",
        };
      },
    );
    const found = list.filter((r) => !query || `${r.name} ${r.note}`.toLowerCase().includes(query));
    this.#nobody.hidden = found.length > 0 || (all.length === 0 && !this.#found);
    this.#show(found);
  }

  // #search shows the matching members: first the loaded ones, and if not all are loaded, those of the server.
  #search(): void {
    clearTimeout(this.#typed);
    const query = this.#filter.value.trim();
    if (!query || !this.talk.line.groups.hasMore(this.group)) {
      this.#found = undefined;
      return this.#drawMembers();
    }
    this.#typed = setTimeout(() => void this.#find("").catch(this.#failed), TYPED);
  }

  async #find(cursor: string): Promise<void> {
    const query = this.#filter.value.trim();
    if (!query) return;
    const page = await ask(this.talk, "groups.members", {
      path: { group: this.group },
      query: { q: query, limit: FOUND, ...(cursor && { cursor }) },
    });
    if (query !== this.#filter.value.trim()) return; // a later request has been sent
    const before = cursor && this.#found?.query === query ? this.#found.members : [];
    this.#found = { query, members: [...before, ...page.members], next: page.next ?? "" };
    this.#drawMembers();
  }

  #row(r: Row): HTMLLIElement {
    const { member } = r;
    const own = member.user.id === this.talk.me.id;
    const opener: HTMLButtonElement = h(
      "button",
      {
        type: "button",
        class: "round",
        "aria-haspopup": "menu",
        "aria-label": g.memberActions(r.name),
        onclick: () => openMenu(opener, [], this.#items(r)),
      },
      sign("more"),
    );
    return h(
      "li",
      { class: "person", "data-user": member.user.id },
      face(member.user),
      h(
        "div",
        { class: "person-text" },
        h(
          "p",
          { class: "person-name" },
          r.name,
          " ",
          own && h("span", { class: "you" }, t.words.you),
          " ",
          member.role !== "member" && h("span", { class: "role" }, g.roles[member.role]),
        ),
        (r.note || r.muted) &&
          h("p", { class: "muted" }, [r.note, r.muted && `${g.isMuted} ${r.muted}`].filter(Boolean).join(" · ")),
      ),
      own || member.user.deleted ? null : opener,
    );
  }

  #items({ member, name, muted }: Row): Item[] {
    const { groups } = this.talk.line;
    const { id } = member.user;
    const path = { group: this.group, user: id };
    const set = (body: { role?: "member" | "admin"; muted_until?: string }) =>
      this.#then(ask(this.talk, "groups.set_member", { path, body }));
    const mute = (text: string, ms: number): Item => ({
      text,
      run: () => set({ muted_until: new Date(now() + ms).toISOString() }),
    });
    const items: Item[] = [
      { text: g.writeTo, label: t.people.writeTo(name), run: () => void (location.hash = `#/chats/${id}`) },
    ];
    if (groups.may(this.group, "appoint")) {
      items.push(
        member.role === "admin"
          ? { text: g.noAdmin, run: () => set({ role: "member" }) }
          : { text: g.makeAdmin, run: () => set({ role: "admin" }) },
      );
      items.push({
        text: g.handOver,
        sure: g.handOverSure(name),
        run: () => this.#then(ask(this.talk, "groups.transfer", { path: { group: this.group }, body: { user: id } })),
      });
    }
    if (!groups.may(this.group, "mute") || !groups.over(this.group, id)) return items;
    if (muted) items.push({ text: g.unmute, run: () => set({ muted_until: PAST }) });
    else items.push(mute(g.muteHour, HOUR), mute(g.muteDay, 24 * HOUR), mute(g.muteWeek, 7 * 24 * HOUR));
    items.push({
      text: g.remove,
      sure: g.removeSure,
      run: () => this.#then(ask(this.talk, "groups.remove", { path })),
    });
    items.push({ text: g.ban, sure: g.banSure, run: () => this.#then(ask(this.talk, "groups.ban", { path })) });
    return items;
  }
}
