// The frame around the views: header, banner, footer, and the choice of the view.

import type { AccountNotice, SessionEnded, User, StoaEvent } from "@stoa-dev/client";
import { welcome } from "./auth";
import { development } from "./codes";
import { h, icon, put } from "./dom";
import { say } from "./form";
import { home } from "./home";
import type { Connection } from "./connection";
import type { LiveState } from "./live";
import { People } from "./people";
import { authed, device, end, Ended, forget, setUser, user, whenEnded } from "./session";
import { tabStorage } from "./storage";
import { otherLanguage, t } from "./texts";
import type { View } from "./view";

const RENEWED = "stoa.renewed"; // the time of this tab's last reload after a failed import, in ms since 1970

const bannerText = h("p", {});
const banner = h(
  "div",
  { class: "banner", role: "alert", hidden: true },
  bannerText,
  h(
    "button",
    { type: "button", class: "round", "aria-label": t.frame.close, onclick: () => announce("") },
    icon("close"),
  ),
);
const offline = h("p", { class: "offline", role: "status", hidden: true }, t.frame.offline);
const dot = h("span", { class: "live", role: "status", hidden: true });
const told = h("span", { class: "badge", "data-unread-notices": "", hidden: true });
const bell = h(
  "a",
  { class: "round bell", href: "#/notices", hidden: true },
  icon("bell"),
  h("span", { class: "sr" }, t.frame.titles.notices, " "),
  told,
);
const nav = h("nav", { "aria-label": t.frame.main });
const main = h("main", { id: "main", tabindex: -1 });
const mails = h("a", { href: "/dev/mail", hidden: true }, t.frame.mails);

put(
  document.getElementById("app")!,
  // The listener below would treat a link to #main as a page.
  h("button", { type: "button", class: "skip", onclick: () => main.focus() }, t.frame.skip),
  h(
    "header",
    { class: "top" },
    h("a", { href: "#/", class: "brand", "aria-label": t.frame.brand }, icon("temple"), h("span", {}, "Stoa")),
    dot,
    bell,
    nav,
  ),
  offline,
  banner,
  main,
  h(
    "footer",
    {},
    h("a", { href: "/docs" }, t.frame.reference),
    h("a", { href: "/openapi.json" }, "OpenAPI"),
    mails,
    h("button", { type: "button", class: "link language", onclick: otherLanguage }, t.frame.otherLanguage),
  ),
);
void development.then((there) => (mails.hidden = !there));

function announce(text: string): void {
  bannerText.textContent = text;
  banner.hidden = !text;
}

function showState(state: LiveState): void {
  dot.hidden = false;
  dot.dataset["state"] = state;
  dot.textContent = t.frame.live[state];
}

// The parts that run while a device is logged in, in any view.
interface Login {
  device: string;
  people: People;
  connecting: Promise<Connection>;
  unread: () => number; // messages
  told: () => number; // notices
  stop: () => void;
}
let login: Login | undefined;
let view: View | undefined;
let drawn = 0; // counts the calls of show, so that a view that loads late is discarded
let guest = true; // the shown view is for a visitor who is not logged in

function begin(): Login {
  const people = new People((err) => !(err instanceof Ended) && announce(say(err)));
  const gone = new AbortController();
  people.watch(showUnread, gone.signal);
  const missed = () => {
    void people.catchUp();
    view?.catchUp?.();
  };
  // A hidden page may have been suspended.
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && missed(), {
    signal: gone.signal,
  });
  let there: Connection | undefined;
  showState("connecting");
  const connecting = late(async () => {
    const { connect } = await import("./live").catch(async (err: unknown) => {
      await renewed();
      throw err;
    });
    return connect(user()!, people, {
      state: showState,
      missed,
      event: (e) => {
        if (e.type === "account.updated" && (e.data as User).version < (user()?.version ?? 0)) return; // older than the stored one
        happened(e);
        people.event(e);
        view?.event?.(e);
      },
    });
  }, gone.signal);
  void connecting.then((got) => {
    there = got;
    if (gone.signal.aborted) return got.stop();
    for (const name of ["chat", "synced", "gone"] as const) got.chats.on(name, showUnread);
    got.onTold(showUnread);
    got.groups.watch(showUnread, gone.signal);
  });
  return {
    device: device(),
    people,
    connecting,
    unread: () => there?.unread() ?? 0,
    told: () => there?.told() ?? 0,
    stop: () => {
      there?.stop();
      people.stop();
      gone.abort();
    },
  };
}

// late retries run while the server is unavailable.
async function late<T>(run: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await run();
    } catch (err) {
      if (signal.aborted) throw err;
      showState("waiting");
      await new Promise((done) => setTimeout(done, 3000));
    }
  }
}

// renewed reloads the page after a part of it failed to load. The server may have a newer page, and a browser does not
// load a failed part again. If the page is the newest one, it reloads at most once a minute.
async function renewed(): Promise<void> {
  try {
    const script = /\/assets\/index-[^"]+/.exec(await (await fetch("/")).text());
    // A tab without storage may have reloaded just now.
    const last = tabStorage instanceof Storage ? Number(tabStorage.getItem(RENEWED)) : performance.timeOrigin;
    const again = Date.now() - last > 60_000;
    if (!script || (import.meta.url.endsWith(script[0]) && !again)) return;
    tabStorage.setItem(RENEWED, String(Date.now()));
    location.reload();
  } catch {
    // The server is unavailable.
  }
}

function happened(e: StoaEvent): void {
  if (e.type === "account.updated") setUser(e.data as User);
  if (e.type === "account.notice") {
    const notice = e.data as AccountNotice;
    if (notice.device !== device()) announce(t.frame.notices[notice.kind]);
  }
  if (e.type === "session.ended" && (e.data as SessionEnded).device === device()) end(t.frame.outHere);
}

// The first part of an address: a page of its own, or a page about the thing that follows.
const pages = ["notices", "chats", "rooms", "friends", "profile"] as const;
const places: Record<string, "card" | "undo" | "group"> = { card: "card", undo: "undo", join: "group", group: "group" };
type Page = (typeof pages)[number] | "home";
let title = "";

const requests = h("span", { class: "badge", "data-unread": "", hidden: true });
const messages = h("span", { class: "badge", "data-unread-chats": "", hidden: true });
function showUnread(): void {
  const count = (badge: HTMLElement, n: number, what: (n: number) => string) => {
    badge.hidden = n === 0;
    put(badge, n > 0 && (n > 99 ? "99+" : String(n)), n > 0 && h("span", { class: "sr" }, what(n)));
    return n;
  };
  count(told, login?.told() ?? 0, t.frame.newNotices);
  const n =
    count(requests, login?.people.unread ?? 0, t.frame.newRequests) +
    count(messages, login?.unread() ?? 0, t.frame.newMessages);
  document.title = n > 0 ? `(${n}) ${title}` : title;
}

function show(): void {
  for (const dialog of document.querySelectorAll<HTMLDialogElement>("main dialog[open]")) dialog.close();
  view?.close();
  view = undefined;
  if (login && login.device !== device()) {
    login.stop();
    login = undefined;
  }
  announce("");
  const me = user();
  const [, at = "", id = ""] = /^#\/(\w+)(?:\/([\w-]+)$)?/.exec(location.hash) ?? [];
  const page = (id && places[at]) || pages.find((p) => p === at) || (at === "watch" ? "rooms" : "home");
  title = me ? `${t.frame.titles[page]} · Stoa` : "Stoa";
  guest = !me;
  document.body.classList.toggle("guest", guest);
  const mine = ++drawn;
  const lost = () => {
    if (mine !== drawn) return;
    put(
      main,
      h(
        "section",
        { class: "card empty", role: "alert" },
        h("p", {}, t.frame.notLoaded),
        h("button", { type: "button", class: "secondary", onclick: () => renewed().then(show) }, t.words.tryAgain),
      ),
    );
  };
  const place = (v: View) => {
    if (mine !== drawn) return v.close();
    view = v;
    put(main, v.el);
    v.follow?.();
  };
  if (!me) {
    dot.hidden = bell.hidden = true;
    put(nav);
    if (page === "undo") {
      put(main, h("p", { class: "muted" }, t.words.moment));
      import("./undo").then((m) => mine === drawn && put(main, m.undoView(id).el), lost);
      return showUnread();
    }
    const entered = (news: string) => {
      navigate(page === "card" || page === "group" || page === "rooms" ? location.hash : "#/");
      announce(news);
    };
    if (page === "rooms") {
      put(main, h("p", { class: "muted" }, t.words.moment));
      import("./rooms/view")
        .then((m) => place(m.visitView((text) => welcome(entered, text, false), announce)))
        .catch(lost);
      return showUnread();
    }
    put(
      main,
      welcome(entered, page === "card" ? t.frame.shownCard : page === "group" ? t.frame.shownGroup : undefined),
    );
    return showUnread();
  }
  login ??= begin();
  bell.hidden = false;
  bell.toggleAttribute("aria-current", page === "notices");
  const { people } = login;
  const link = (at: Page, href: string, ...text: (string | Node)[]) =>
    h("a", { href, "aria-current": page === at ? "page" : null }, ...text);
  put(
    nav,
    link("home", "#/", t.frame.titles.home),
    link("chats", "#/chats", t.frame.titles.chats, messages),
    link("rooms", "#/rooms", t.frame.titles.rooms),
    link("friends", "#/friends", t.frame.titles.friends, requests),
    link("profile", "#/profile", t.frame.titles.profile),
    h("button", { type: "button", class: "link", onclick: logOut }, t.frame.logOut),
  );
  showUnread();
  if (page === "home") {
    place(home(me, announce));
    return void setTimeout(
      () => void Promise.all([import("./chat/view"), import("./friends"), import("./profile")]).catch(() => {}),
      2000,
    );
  }
  // The other views are loaded later, so that the first one is ready sooner. They are then also available if the server
  // is not.
  put(main, h("p", { class: "muted" }, t.words.moment));
  const { connecting, device: of } = login;
  const load: Record<Exclude<Page, "home"> | "card" | "undo" | "group", () => Promise<View>> = {
    undo: () => import("./undo").then((m) => m.undoView(id)),
    card: () => import("./card").then((m) => m.cardView(me, id, people, announce)),
    group: async () => {
      const [m, connection] = await Promise.all([import("./chat/door"), connecting]);
      return m.doorView(at === "join" ? { link: id } : { group: id }, connection, announce);
    },
    chats: async () => {
      const [m, connection] = await Promise.all([import("./chat/view"), connecting]);
      return m.chatsView(me, connection, people, announce);
    },
    rooms: async () => {
      const [m, connection] = await Promise.all([import("./rooms/view"), connecting]);
      return m.roomsView(connection, announce);
    },
    notices: () => import("./notices").then((m) => m.noticesView(announce)),
    friends: () => import("./friends").then((m) => m.friends(me, people, announce)),
    profile: () => import("./profile").then((m) => m.profile(me, { fail: announce, left: (text) => left(text, of) })),
  };
  load[page]().then(place, lost);
}

// arrive scrolls to the top of the addressed view, and moves the focus to it, so that a screen reader continues there.
function arrive(): void {
  show();
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
}

function navigate(hash: string): void {
  if (location.hash !== hash) history.replaceState(null, "", hash);
  arrive();
}

async function logOut(): Promise<void> {
  const mine = device();
  try {
    await authed("/v1/auth/logout", { method: "POST" });
  } catch (err) {
    // The user leaves this device in any case. If the server could not be reached, the user is informed, because it
    // still sends pushes to this device.
    if (!(err instanceof Ended)) {
      void navigator.serviceWorker
        ?.getRegistration()
        .then(async (r) => (await r?.pushManager?.getSubscription())?.unsubscribe())
        .catch(() => {});
      return left(t.frame.outButNotTold(say(err)), mine);
    }
  }
  left(t.frame.out, mine);
}

function left(text: string, mine: string): void {
  if (user() && mine !== device()) return; // another user has logged in meanwhile, in another tab
  forget();
  if (!guest) navigate("#/"); // the event may be earlier than the response
  announce(text);
}

whenEnded((reason) => {
  // Requests from before the log-out fail without a session. That is no news, because the banner already states what
  // happened.
  if (guest && !user()) return;
  navigate(user() ? location.hash : "#/"); // the user may have logged in in another tab
  announce(reason);
});
addEventListener("hashchange", () => {
  if (login?.device === device() && view?.follow?.()) return; // it has moved the focus
  arrive();
});
const online = () => (offline.hidden = navigator.onLine);
addEventListener("online", online);
addEventListener("offline", online);
online();
show();
