// The frame around the views: header, banner, footer, and which view is shown.

import { outbox } from "./api";
import { welcome } from "./auth";
import { h, icon, put } from "./dom";
import { say } from "./form";
import { home, type View } from "./home";
import type { LiveState } from "./live";
import { profile } from "./profile";
import { authed, Ended, forget, user, whenEnded } from "./session";

const dev = outbox("nobody@example.com").then((mails) => mails !== null);

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
void dev.then((there) => (mails.hidden = !there));

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

let view: View | undefined;

function show(): void {
  view?.close();
  view = undefined;
  dot.hidden = true;
  announce("");
  const me = user();
  const page = me && location.hash === "#/profile" ? "profile" : "home";
  document.title = me ? (page === "profile" ? "Profile · Stoa" : "Today · Stoa") : "Stoa";
  document.body.classList.toggle("guest", !me);
  if (!me) {
    put(nav);
    put(main, welcome(dev, () => navigate("#/")));
    return;
  }
  const link = (href: string, text: string, current: boolean) => h("a", { href, "aria-current": current ? "page" : null }, text);
  put(
    nav,
    link("#/", "Today", page === "home"),
    link("#/profile", "Profile", page === "profile"),
    h("button", { type: "button", class: "link", onclick: logOut }, "Log out"),
  );
  view = page === "profile" ? profile(me, { fail: announce, left }) : home(me, { state: showState, fail: announce });
  put(main, view.el);
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
  navigate("#/");
  announce(text);
}

whenEnded((reason) => {
  // What was still being asked when the user left finds no session. That is no
  // news, and the banner says already what happened.
  if (!view && !user()) return;
  navigate("#/");
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
