// The people in a room, and the actions on them. Only actions of the caller's rights are shown.

import type { RoomGone, RoomMember, RoomMembers, RoomOnline } from "@stoa-dev/client";
import { now } from "../api";
import { act } from "../buttons";
import { h } from "../dom";
import { face } from "../person";
import { rows } from "../rows";
import { t } from "../texts";
import { r } from "../texts/rooms";
import { sign } from "../chat/icons";
import { openMenu, type Item } from "../chat/menu";
import { untilWords } from "../chat/when";
import type { Seat } from "./seat";

const PAGE = 100;
const HOUR = 3600_000; // ms
const PAST = new Date(0).toISOString(); // a mute until then has no effect
const ranks = { guest: 0, member: 1, admin: 2, owner: 3 } as const;

interface Row {
  member: RoomMember;
  muted: string;
  own: boolean;
  watches: boolean;
  doable: string; // the state that the menu depends on
}

export class RoomPeople {
  readonly el: HTMLElement;

  readonly #list = h("ul", { class: "members", "aria-label": r.tabs.people });
  readonly #more: HTMLButtonElement;
  readonly #show: (rows: Row[]) => void;
  #members = new Map<string, RoomMember>();
  #online = new Set<string>();
  #cursor = "";
  #pages = 0; // that are loading
  #told = new Map<string, RoomMember | undefined>(); // changes by events during a load: a page may be older
  #me: { id: string; role: keyof typeof ranks; may: string[] } = { id: "", role: "guest", may: [] };

  constructor(
    private readonly seat: Seat,
    private readonly failed: (err: unknown) => void,
  ) {
    const rest = h("span", { tabindex: -1 });
    this.#more = act(t.words.showMore, "link", () => this.#page(this.#cursor), failed);
    this.#more.hidden = true;
    this.#show = rows<Row>(
      this.#list,
      (row) => row.member.user.id,
      (row) => this.#row(row),
      rest,
    );
    this.el = h("div", { class: "stack" }, rest, this.#list, this.#more);
  }

  me(me: { id: string; role: keyof typeof ranks; may: string[] }): void {
    this.#me = me;
    this.#draw();
  }

  /** Loads the members and the viewers, if they are shown. */
  async read(): Promise<void> {
    if (!this.el.hidden) await Promise.all([this.#page(""), this.online()]);
  }

  async online(): Promise<void> {
    if (this.el.hidden) return;
    const { viewers } = await this.seat.ask<RoomOnline>("/online");
    this.#online = new Set(viewers.map((v) => v.id));
    this.#draw();
  }

  async #page(cursor: string): Promise<void> {
    this.#pages++;
    try {
      const page = await this.seat.ask<RoomMembers>(
        `/members?limit=${PAGE}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
      );
      if (!cursor) this.#members.clear();
      for (const m of page.members) this.#members.set(m.user.id, m);
      for (const [user, m] of this.#told) this.#set(user, m);
      this.#cursor = page.next ?? "";
    } finally {
      if (--this.#pages === 0) this.#told.clear();
    }
    this.#more.hidden = !this.#cursor;
    this.#draw();
  }

  changed = (m: RoomMember): void => this.#tell(m.user.id, m);

  gone = ({ user }: RoomGone): void => this.#tell(user, undefined);

  #tell(user: string, m: RoomMember | undefined): void {
    if (this.#pages > 0) this.#told.set(user, m);
    this.#set(user, m);
    this.#draw();
  }

  #set(user: string, m: RoomMember | undefined): void {
    if (m) this.#members.set(user, m);
    else this.#members.delete(user);
  }

  #draw(): void {
    const all = [...this.#members.values()].sort(
      (a, b) =>
        ranks[b.role] - ranks[a.role] ||
        Date.parse(a.joined) - Date.parse(b.joined) ||
        (a.user.id < b.user.id ? -1 : 1),
    );
    this.#show(
      all.map((member): Row => {
        const until = Date.parse(member.muted_until ?? "");
        return {
          member,
          muted: until > now() ? untilWords(until) : "",
          own: member.user.id === this.#me.id,
          watches: this.#online.has(member.user.id),
          doable: `${this.#me.role} ${this.#me.may.join()}`,
        };
      }),
    );
  }

  #row(row: Row): HTMLLIElement {
    const { user, role } = row.member;
    const items = this.#items(row);
    const opener: HTMLButtonElement = h(
      "button",
      {
        type: "button",
        class: "round",
        "aria-haspopup": "menu",
        "aria-label": r.actions(user.name),
        onclick: () => openMenu(opener, [], items),
      },
      sign("more"),
    );
    return h(
      "li",
      { class: row.watches ? "person watches" : "person", "data-user": user.id },
      face(user),
      h(
        "div",
        { class: "person-text" },
        h(
          "p",
          { class: "person-name" },
          user.name,
          " ",
          row.own && h("span", { class: "you" }, r.you),
          " ",
          role !== "member" && h("span", { class: "role" }, r.roles[role]),
        ),
        row.muted && h("p", { class: "muted" }, `${r.isMuted} ${row.muted}`),
      ),
      items.length > 0 && opener,
    );
  }

  #items({ member, own, muted }: Row): Item[] {
    const me = this.#me;
    const { id, name } = member.user;
    if (own || ranks[me.role] <= ranks[member.role]) return [];
    const may = (what: string) => me.may.includes(what);
    const run = (work: () => Promise<unknown>) => () => void work().catch(this.failed);
    const set = (body: object) =>
      run(async () => this.changed(await this.seat.ask<RoomMember>(`/members/${id}`, { method: "PATCH", body })));
    const items: Item[] = [];
    const account = member.role !== "guest";
    if (me.role === "owner" && account) {
      items.push(
        member.role === "admin"
          ? { text: r.noAdmin, run: set({ role: "member" }) }
          : { text: r.makeAdmin, run: set({ role: "admin" }) },
      );
      items.push({
        text: r.handOver,
        sure: r.handOverSure(name),
        run: run(() => this.seat.ask("/owner", { method: "PUT", body: { user: id } })),
      });
    }
    if (may("settings") && member.role === "member") {
      const controls = member.may.includes("control");
      items.push({
        text: controls ? r.noControl : r.letControl,
        run: set({ may: controls ? member.may.filter((m) => m !== "control") : [...member.may, "control"] }),
      });
    }
    if (!may("moderate")) return items;
    const mute = (text: string, ms: number): Item => ({
      text,
      run: () => set({ muted_until: new Date(now() + ms).toISOString() })(),
    });
    if (muted) items.push({ text: r.unmuteThem, run: set({ muted_until: PAST }) });
    else items.push(mute(r.muteHour, HOUR), mute(r.muteDay, 24 * HOUR));
    items.push({
      text: r.kick,
      sure: r.kickSure,
      run: run(() => this.seat.ask(`/members/${id}`, { method: "DELETE" })),
    });
    items.push({ text: r.ban, sure: r.banSure, run: run(() => this.seat.ask(`/bans/${id}`, { method: "PUT" })) });
    return items;
  }
}
