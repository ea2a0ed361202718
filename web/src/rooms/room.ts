// The open room: player, danmaku, chat, playlist and people.

import {
  isTemporary,
  Refused as RefusedOnLine,
  type Danmaku as Comment,
  type DanmakuNew,
  type Room,
  type RoomGone,
  type RoomLine,
  type RoomMember,
  type RoomPlaylist as Playlist,
  type RoomScene,
  type RoomSelf,
  type RoomViewers,
  type Playback,
  type StoaEvent,
} from "@stoa-dev/client";
import { now, Refused, Unreachable } from "../api";
import { act, twice } from "../buttons";
import { h, put } from "../dom";
import { form, say, taken } from "../form";
import { Ended, user } from "../session";
import { r } from "../texts/rooms";
import { sign } from "../chat/icons";
import { broadcast, canStream, type Broadcast } from "./camera";
import { RoomChat } from "./chat";
import { Danmaku } from "./danmaku";
import { bans, invite, settings } from "./forms";
import { RoomPeople } from "./people";
import { Player } from "./player";
import { RoomPlaylist } from "./playlist";
import type { Place, Seat } from "./seat";

const RETRY = 3000; // ms, with jitter
const FRESH = 5000; // ms: until then, the viewers of an event replace those of a scene
const CALM = 1000; // ms, the least time between two loads of the viewers
const EACH = 10; // ms more per viewer, because all viewers with an open list load it
const COLORS = { white: 0xffffff, red: 0xff6b6b, yellow: 0xffe066, green: 0x8ce99a, blue: 0x74c0fc, pink: 0xfaa2c1 };
const TABS = ["chat", "list", "people"] as const;

let views = 0;

export class RoomView {
  readonly el: HTMLElement;

  readonly #danmaku: Danmaku;
  readonly #player: Player;
  readonly #chat: RoomChat;
  readonly #list: RoomPlaylist;
  readonly #people: RoomPeople;
  readonly #title = h("h1", { tabindex: -1 });
  readonly #count = h("p", { class: "muted", "data-viewers": "" });
  readonly #doings = h("div", { class: "row room-doings" });
  readonly #shoot: HTMLElement;
  readonly #clear: HTMLElement;
  readonly #away = h("p", { class: "offline", role: "status", hidden: true }, r.away);
  readonly #camera = act(
    "",
    "secondary",
    () => (this.#broadcast ? this.#goOff() : this.#goLive()),
    (err) => this.failed(err),
  );

  #room: Room | undefined;
  #me: RoomSelf | undefined;
  #items: Playlist["items"] = [];
  #now = "";
  #over = false;
  #unsubscribe: () => void;
  #offs: (() => void)[];
  #reading = false;
  #due: "" | "room" | "all" = ""; // the next load: the running one may be older than a change
  readonly #versions = new Map<string, number>(); // of each member's last event
  #heard: RoomSelf | undefined; // the caller's state from an event during the load
  #lists = 0; // requests for the playlist
  #shown = 0; // the one of the shown response
  #looksWho: ReturnType<typeof setTimeout> | undefined;
  #looksAgain: ReturnType<typeof setTimeout> | undefined;
  #doable = "";
  #broadcast: Broadcast | undefined;
  #viewers = { count: 0, at: -Infinity };

  constructor(
    private readonly seat: Seat,
    private readonly on: { fail: (text: string) => void; gone: (text: string) => void },
  ) {
    const { failed } = this;
    this.#danmaku = new Danmaku(seat);
    this.#player = new Player(seat, this.#danmaku, failed);
    this.#chat = new RoomChat(seat, failed);
    this.#list = new RoomPlaylist(seat, (item) => this.#player.command({ do: "load", item }), this.#camera, failed);
    this.#people = new RoomPeople(seat, failed);
    this.#clear = twice(
      r.danmaku.clear,
      r.danmaku.clearSure,
      async () => void (await seat.ask("/danmaku", { method: "DELETE" })),
      failed,
    );
    this.#shoot = this.#shootForm();
    this.el = h(
      "div",
      { class: "watch" },
      h("header", { class: "watch-head" }, h("div", {}, this.#title, this.#count), this.#doings),
      this.#away,
      h("div", { class: "watch-main" }, this.#player.el, this.#shoot),
      h("section", { class: "card watch-side" }, ...this.#tabs()),
    );
    this.#drawCamera();
    this.#offs = [
      seat.client.on("room.gone", (gone) => this.#gone(gone)),
      seat.client.on("state", ({ state }) => {
        this.#away.hidden = state === "online";
        if (state === "ended" && seat.guest) this.#leave(r.gone.kicked(this.#room?.name ?? r.doorTitle));
      }),
    ];
    // Events from before the subscription are in the scene that is loaded after it.
    this.#unsubscribe = seat.client.subscribe(
      `room/${seat.room}`,
      (e) => this.#event(e),
      () => void this.#read("all"),
    );
  }

  close(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#looksWho);
    clearTimeout(this.#looksAgain);
    for (const off of this.#offs) off();
    this.#unsubscribe();
    void this.#goOff().catch(() => {}); // the room is closed here
    this.#player.close();
    this.seat.close();
  }

  catchUp = (): void => void this.#read("all");

  readonly failed = (err: unknown) => {
    if (this.#over || err instanceof Ended) return;
    this.on.fail(say(err));
  };

  // #read loads the room and the caller's membership, or the whole scene. Only one load runs at a time; a call during
  // it causes one more.
  async #read(what: "room" | "all"): Promise<void> {
    if (this.#due !== "all") this.#due = what;
    if (this.#reading) return;
    this.#reading = true;
    while (this.#due && !this.#over) {
      const due = this.#due;
      this.#due = "";
      this.#heard = undefined;
      try {
        await (due === "all" ? this.#readAll() : this.seat.ask<Place>("").then(this.#place));
      } catch (err) {
        if (this.#over) return;
        if (err instanceof Refused && err.problem.status === 404) return this.#leave(r.unknown);
        if (
          err instanceof Unreachable ||
          (err instanceof Refused && err.problem.status === 503) ||
          (err instanceof RefusedOnLine && isTemporary(err))
        )
          setTimeout(() => !this.#over && void this.#read(due), RETRY * (0.5 + Math.random()));
        this.failed(err);
      }
    }
    this.#reading = false;
  }

  async #readAll(): Promise<void> {
    const question = ++this.#lists;
    const { clears } = this.#danmaku;
    const scene = await this.seat.ask<RoomScene>("/scene");
    if (this.#over) return;
    this.#place(scene);
    this.#show(scene.playback);
    this.#showList(scene.playlist, question);
    if (clears === this.#danmaku.clears) for (const c of scene.danmaku) this.#danmaku.live(c);
    await Promise.all([this.#chat.read(), this.#people.read()]);
  }

  readonly #place = ({ room, me }: Place): void => {
    if (this.#over) return;
    if (!me) return this.#leave(r.unknown);
    this.#settings(room);
    this.#self(this.#heard ?? me);
  };

  #event({ type, data }: StoaEvent): void {
    if (this.#over) return;
    switch (type) {
      case "room.playback":
        return this.#show(data as Playback);
      case "room.playlist":
        return this.#readList();
      case "room.said":
        return this.#chat.add(data as RoomLine);
      case "room.danmaku":
        return this.#danmaku.live(data as Comment);
      case "room.danmaku_cleared":
        return this.#danmaku.clear();
      case "room.viewers":
        this.#viewers = { count: (data as RoomViewers).viewers, at: performance.now() };
        if (this.#room) this.#settings(this.#room);
        this.#looksWho ??= setTimeout(
          () => {
            this.#looksWho = undefined;
            void this.#people.online().catch(() => {}); // the next event retries
          },
          Math.max(CALM, EACH * this.#viewers.count) * (1 + Math.random()),
        );
        return;
      case "room.changed":
        // The event has no `words`, and the caller's permissions may have changed, so the room is loaded again. The
        // wait spreads the requests of all viewers.
        this.#looksAgain ??= setTimeout(
          () => {
            this.#looksAgain = undefined;
            void this.#read("room");
          },
          Math.random() * (this.#room?.viewers ?? 0),
        );
        return;
      case "room.member": {
        const member = data as RoomMember;
        if (this.#older(member.user.id, member.version)) return;
        this.#people.changed(member);
        if (member.user.id === this.#me?.id) this.#self((this.#heard = { ...member, id: member.user.id }));
        return;
      }
      case "room.gone":
        return this.#gone(data as RoomGone);
    }
  }

  // #older reports whether an event of a member is older than the last one of that member.
  #older(member: string, version = 0): boolean {
    if (version < (this.#versions.get(member) ?? 0)) return true;
    this.#versions.set(member, version);
    return false;
  }

  #gone(gone: RoomGone): void {
    if (gone.room !== this.seat.room || (gone.user && this.#older(gone.user, gone.version))) return;
    if (gone.user === this.#me?.id || gone.why === "closed")
      this.#leave(r.gone[gone.why](this.#room?.name ?? r.doorTitle));
    else this.#people.gone(gone);
  }

  #leave(text: string): void {
    if (this.#over) return;
    this.close();
    this.on.gone(text);
  }

  async #goLive(): Promise<void> {
    const title = r.live.title(user()?.name ?? "");
    try {
      this.#broadcast = await broadcast(this.seat, title, () => void this.#goOff().catch(this.failed));
    } catch (err) {
      if (!(err instanceof DOMException)) throw err;
      return this.on.fail(err.name === "NotAllowedError" ? r.live.refused : r.live.noCamera);
    }
    if (this.#over) return this.#goOff();
    this.#player.own = this.#broadcast.item;
    this.#drawCamera();
    if (this.#may("control")) await this.#player.command({ do: "load", item: this.#broadcast.item });
  }

  async #goOff(): Promise<void> {
    const was = this.#broadcast;
    this.#broadcast = undefined;
    this.#drawCamera();
    await was?.stop();
  }

  #drawCamera(): void {
    this.#camera.textContent = this.#broadcast ? r.live.stop : r.live.begin;
    this.#camera.hidden = this.seat.guest || !navigator.mediaDevices || !canStream(); // a page without TLS has no access to cameras
  }

  readonly #may = (what: string): boolean => this.#me?.may.includes(what) ?? false;

  #settings(room: Room): void {
    // The viewers of a scene may be some seconds old. A recent event is newer.
    const { count, at } = this.#viewers;
    this.#room = performance.now() - at < FRESH ? { ...room, viewers: count } : room;
    this.#title.textContent = room.name;
    this.#count.textContent = r.viewers(Math.max(1, this.#room.viewers)); // this user is a viewer too
    this.#player.room(room, this.#may("control"));
  }

  #self(me: RoomSelf): void {
    this.#me = me;
    const silent = Date.parse(me.muted_until ?? "") > now();
    this.#people.me(me);
    this.#chat.may(this.#may("chat") && !silent);
    this.#shoot.querySelector("form")!.hidden = !this.#may("danmaku") || silent;
    this.#clear.hidden = !this.#may("moderate");
    if (this.#room) this.#player.room(this.#room, this.#may("control"));
    this.#drawItems();
    this.#drawDoings();
  }

  #show(playback: Playback): void {
    this.#player.take(playback);
    this.#now = this.#player.moment.item;
    this.#drawItems();
  }

  #readList(): void {
    const question = ++this.#lists;
    void this.seat.ask<Playlist>("/playlist").then((list) => this.#showList(list, question), this.failed);
  }

  // Responses may arrive in another order than their requests: an older one is ignored.
  #showList({ items }: Playlist, question: number): void {
    if (this.#over || question < this.#shown) return;
    this.#shown = question;
    this.#items = items;
    this.#player.items(items);
    this.#drawItems();
  }

  #drawItems(): void {
    this.#list.show(this.#items, this.#now, this.#may);
  }

  #drawDoings(): void {
    const me = this.#me!;
    const state = `${me.role} ${me.may.join()}`;
    if (state === this.#doable) return; // a pending confirmation must not be lost
    this.#doable = state;
    const doing = (shape: Parameters<typeof sign>[0], text: string, run: () => void) =>
      h(
        "button",
        { type: "button", class: "secondary", "aria-haspopup": "dialog", onclick: run },
        sign(shape),
        h("span", {}, text),
      );
    put(
      this.#doings,
      this.#may("invite") && doing("link", r.invite, () => invite(this.seat)),
      this.#may("settings") &&
        doing("pen", r.settings, () =>
          settings(this.seat, this.#room!, (room) => this.#settings({ ...room, viewers: this.#room!.viewers })),
        ),
      this.#may("moderate") && doing("cross", r.bans, () => bans(this.seat)),
      me.role === "owner"
        ? twice(r.end, r.endSure, async () => void (await this.seat.ask("", { method: "DELETE" })), this.failed)
        : twice(
            r.leave,
            r.leaveSure,
            async () => {
              await this.seat.ask("/me", { method: "DELETE" });
              this.#leave(r.gone.left(this.#room?.name ?? ""));
            },
            this.failed,
          ),
    );
  }

  #tabs(): HTMLElement[] {
    const id = `room-${++views}`;
    const panels = { chat: this.#chat.el, list: this.#list.el, people: this.#people.el };
    const choose = (tab: (typeof TABS)[number]) => {
      for (const name of TABS) {
        panels[name].hidden = name !== tab;
        buttons[name].setAttribute("aria-selected", String(name === tab));
        buttons[name].tabIndex = name === tab ? 0 : -1;
      }
      this.#people.read().catch(this.failed);
    };
    const button = (tab: (typeof TABS)[number]): HTMLButtonElement =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          id: `${id}-${tab}`,
          "aria-controls": `${id}-${tab}-panel`,
          "data-tab": tab,
          onclick: () => choose(tab),
        },
        r.tabs[tab],
      );
    const buttons = { chat: button("chat"), list: button("list"), people: button("people") };
    for (const name of TABS) {
      panels[name].id = `${id}-${name}-panel`;
      panels[name].setAttribute("role", "tabpanel");
      panels[name].setAttribute("aria-labelledby", `${id}-${name}`);
    }
    const walk = (e: KeyboardEvent) => {
      const at = TABS.findIndex((name) => buttons[name] === document.activeElement);
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[e.key];
      if (at < 0 || to === undefined) return;
      e.preventDefault();
      const name = TABS[(to + TABS.length) % TABS.length]!;
      choose(name);
      buttons[name].focus();
    };
    choose("chat");
    return [
      h(
        "div",
        { class: "tabs", role: "tablist", "aria-label": r.doorLabel, onkeydown: walk },
        ...TABS.map((name) => buttons[name]),
      ),
      ...TABS.map((name) => panels[name]),
    ];
  }

  #shootForm(): HTMLElement {
    const text = h("input", {
      name: "danmaku",
      maxlength: 100,
      autocomplete: "off",
      "aria-label": r.danmaku.text,
      placeholder: r.danmaku.placeholder,
    });
    const choice = <T extends string>(label: string, name: string, values: readonly T[], say: (v: T) => string) => {
      const el = h(
        "select",
        { name, "aria-label": label },
        ...values.map((value) => h("option", { value }, say(value))),
      );
      return { el, get: () => el.value as T };
    };
    const color = choice(
      r.danmaku.color,
      "color",
      Object.keys(COLORS) as (keyof typeof COLORS)[],
      (v) => r.danmaku.colors[v],
    );
    const mode = choice(r.danmaku.mode, "mode", ["scroll", "top", "bottom"] as const, (v) => r.danmaku.modes[v]);
    const size = choice(r.danmaku.size, "size", ["normal", "small", "large"] as const, (v) => r.danmaku.sizes[v]);
    const on = h("input", {
      type: "checkbox",
      name: "danmaku_on",
      onchange: () => (this.#danmaku.set({ on: on.checked }), (opacity.disabled = !on.checked)),
    });
    const opacity = h("input", {
      type: "range",
      name: "opacity",
      min: 10,
      max: 100,
      step: 5,
      "aria-label": r.danmaku.opacity,
      oninput: () => this.#danmaku.set({ opacity: Number(opacity.value) / 100 }),
    });
    on.checked = this.#danmaku.on;
    opacity.value = String(this.#danmaku.opacity * 100);
    opacity.disabled = !on.checked;
    return h(
      "div",
      { class: "shoot" },
      form(
        { class: "say" },
        [],
        async () => {
          const said = text.value.trim();
          if (!said) return;
          const { item, position } = this.#player.moment;
          const body: DanmakuNew = {
            text: said,
            position,
            color: COLORS[color.get()],
            mode: mode.get(),
            size: size.get(),
            ...(item && { item }),
          };
          this.#danmaku.live(await taken(text, () => this.seat.ask<Comment>("/danmaku", { method: "POST", body })));
        },
        h("div", { class: "say-row" }, text, h("button", { type: "submit", class: "primary small" }, r.danmaku.send)),
        h(
          "details",
          { class: "style" },
          h("summary", {}, r.danmaku.style),
          h("div", { class: "row" }, color.el, mode.el, size.el),
        ),
      ),
      h(
        "div",
        { class: "row" },
        h("label", { class: "switch" }, on, h("span", {}, r.danmaku.on)),
        h("label", { class: "opacity" }, h("span", {}, r.danmaku.opacity), opacity),
        this.#clear,
      ),
    );
  }
}
