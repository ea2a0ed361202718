// The frame around the views: header, banner, footer, and which view is shown.

import type { Event, Notice, SessionEnded, User } from "./api";
import { welcome } from "./auth";
import { development } from "./codes";
import { h, icon, put } from "./dom";
import { say } from "./form";
import { home } from "./home";
import { listen, type LiveState } from "./live";
import { People } from "./people";
import { authed, device, end, Ended, forget, LOGGED_OUT, setUser, user, whenEnded } from "./session";
import type { View } from "./view";

const bannerText = h("p", {});
const banner = h(
  "div",
  { class: "banner", role: "alert", hidden: true },
  bannerText,
  h("button", { type: "button", class: "round", "aria-label": "Close this message", onclick: () => announce("") }, icon("close")),
);
const offline = h("p", { class: "offline", role: "status", hidden: true }, "You are offline. What you see may be old; it catches up by itself.");
const dot = h("span", { class: "live", role: "status", hidden: true });
const nav = h("nav", { "aria-label": "Main" });
const main = h("main", { id: "main", tabindex: -1 });
const mails = h("a", { href: "/dev/mail", hidden: true }, "Development outbox");

put(
  document.getElementById("app")!,
  // A link to #main would be taken for a page by the listener below.
  h("button", { type: "button", class: "skip", onclick: () => main.focus() }, "Skip to the content"),
  h("header", { class: "top" }, h("a", { href: "#/", class: "brand", "aria-label": "Stoa, to the start" }, icon("temple"), h("span", {}, "Stoa")), dot, nav),
  offline,
  banner,
  main,
  h("footer", {}, h("a", { href: "/docs" }, "API reference"), h("a", { href: "/openapi.json" }, "OpenAPI"), mails),
);
void development.then((there) => (mails.hidden = !there));

function announce(text: string): void {
  bannerText.textContent = text;
  banner.hidden = !text;
}

const words: Record<LiveState, string> = { connecting: "Connecting", live: "Live", waiting: "Reconnecting" };
function showState(state: LiveState): void {
  dot.hidden = false;
  dot.className = `live ${state}`;
  dot.textContent = words[state];
}

// What runs for as long as a device is logged in, whichever view is shown.
interface Login {
  device: string;
  people: People;
  stop: () => void;
}
let login: Login | undefined;
let view: View | undefined;
let drawn = 0; // counts what show has drawn, so that a view that comes late finds itself overtaken
let guest = true; // what is shown is for somebody who is not logged in

function begin(): Login {
  const people = new People((err) => !(err instanceof Ended) && announce(say(err)));
  const gone = new AbortController();
  people.watch(showUnread, gone.signal);
  const stop = listen({
    state: showState,
    catchUp: () => {
      void people.catchUp();
      view?.catchUp?.();
    },
    event: (e) => {
      happened(e);
      people.event(e);
      view?.event?.(e);
    },
  });
  return {
    device: device(),
    people,
    stop: () => {
      stop();
      people.stop();
      gone.abort();
    },
  };
}

const notices: Record<Notice["kind"], string> = {
  password_changed: "Your password was changed on another device.",
  email_changed: "Your e-mail address was changed on another device.",
  deletion: "Your account was deleted. Logging in brings it back for some days.",
  restored: "Your account is restored: it will not be deleted.",
};

function happened(e: Event): void {
  if (e.type === "account.updated") setUser(e.data as User);
  if (e.type === "account.notice") {
    const notice = e.data as Notice;
    if (notice.device !== device()) announce(notices[notice.kind]);
  }
  if (e.type === "session.ended" && (e.data as SessionEnded).device === device()) end(LOGGED_OUT);
}

type Page = "home" | "friends" | "card" | "profile" | "undo";
const titles: Record<Page, string> = { home: "Today", friends: "Friends", card: "A card", profile: "Profile", undo: "A change of address" };
let title = "";

const unread = h("span", { class: "badge", "data-unread": "", hidden: true });
function showUnread(): void {
  const n = login?.people.unread ?? 0;
  unread.hidden = n === 0;
  put(unread, n > 99 ? "99+" : String(n), h("span", { class: "sr" }, n === 1 ? " new request" : " new requests"));
  document.title = n > 0 ? `(${n}) ${title}` : title;
}

function show(): void {
  view?.close();
  view = undefined;
  if (login && login.device !== device()) {
    login.stop();
    login = undefined;
  }
  announce("");
  const me = user();
  const token = /^#\/card\/([\w-]+)$/.exec(location.hash)?.[1];
  const undo = /^#\/undo\/([\w-]+)$/.exec(location.hash)?.[1];
  const page: Page = undo ? "undo" : token ? "card" : location.hash === "#/friends" ? "friends" : location.hash === "#/profile" ? "profile" : "home";
  title = me ? `${titles[page]} · Stoa` : "Stoa";
  guest = !me;
  document.body.classList.toggle("guest", guest);
  const mine = ++drawn;
  const lost = () => mine === drawn && announce("This part of the page could not be loaded. Load the page anew.");
  if (!me) {
    dot.hidden = true;
    put(nav);
    if (undo) {
      put(main);
      import("./undo").then((m) => mine === drawn && put(main, m.undoView(undo).el), lost);
      return showUnread();
    }
    const entered = (news: string) => {
      navigate(token ? location.hash : "#/");
      announce(news);
    };
    put(main, welcome(entered, token && "Somebody has shown you their card. Sign up or log in to see whose it is."));
    return showUnread();
  }
  login ??= begin();
  const { people } = login;
  const link = (at: Page, href: string, ...text: (string | Node)[]) => h("a", { href, "aria-current": page === at ? "page" : null }, ...text);
  put(
    nav,
    link("home", "#/", "Today"),
    link("friends", "#/friends", "Friends", unread),
    link("profile", "#/profile", "Profile"),
    h("button", { type: "button", class: "link", onclick: logOut }, "Log out"),
  );
  showUnread();
  const place = (v: View) => {
    if (mine !== drawn) return v.close();
    view = v;
    put(main, v.el);
  };
  if (page === "home") return place(home(me, announce));
  // The other views are fetched when somebody wants them: the first one is there sooner.
  put(main);
  const late: Promise<View> = undo
    ? import("./undo").then((m) => m.undoView(undo))
    : token
    ? import("./card").then((m) => m.cardView(me, token, people, announce))
    : page === "friends"
      ? import("./friends").then((m) => m.friends(me, people, announce))
      : import("./profile").then((m) => m.profile(me, { fail: announce, left }));
  late.then(place, lost);
}

function navigate(hash: string): void {
  if (location.hash !== hash) history.replaceState(null, "", hash);
  show();
}

async function logOut(): Promise<void> {
  try {
    await authed("/v1/auth/logout", { method: "POST" });
  } catch (err) {
    // The user wants to be gone from this device whatever the server says; but
    // they should know that the server could not be told.
    if (!(err instanceof Ended)) return left(`You have logged out here, but the server was not told: ${say(err)}`);
  }
  left("You have logged out.");
}

function left(text: string): void {
  forget();
  if (!guest) navigate("#/"); // the event may have been quicker than the answer
  announce(text);
}

whenEnded((reason) => {
  // What was still being asked when the user left finds no session. That is no
  // news, and the banner says already what happened.
  if (guest && !user()) return;
  navigate(user() ? location.hash : "#/"); // somebody may have logged in in another tab
  announce(reason);
});
addEventListener("hashchange", () => {
  show();
  main.focus({ preventScroll: true });
});
const online = () => (offline.hidden = navigator.onLine);
addEventListener("online", online);
addEventListener("offline", online);
online();
show();
