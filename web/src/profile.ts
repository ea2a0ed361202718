// The profile: the user's own texts, who may find the user, and how the user logs in.

import type { User, UserUpdate } from "@stoa-dev/client";
import { deletionCard, emailCard, passwordCard } from "./account";
import { chatSettings } from "./chat/settings";
import { devicesCard } from "./devices";
import { h, put } from "./dom";
import { field, form, say } from "./form";
import { pictureCard } from "./picture";
import { pushCard } from "./pushcard";
import { Ended, json, setUser } from "./session";
import { t } from "./texts";
import type { View } from "./view";
import { place, zoneField } from "./zones";

export function profile(me: User, on: { fail: (text: string) => void; left: (text: string) => void }): View {
  const closed = new AbortController();
  const failed = (err: unknown) => {
    if (!(err instanceof Ended) && !closed.signal.aborted) on.fail(say(err));
  };

  const name = field(
    t.profile.name,
    { name: "name", required: true, maxlength: 40, autocomplete: "nickname", value: me.name },
    t.profile.nameHint,
  );
  const about = h("textarea", { rows: 3, maxlength: 200 });
  const bio = field(t.profile.bio, { name: "bio" }, t.profile.bioHint, about);
  const zone = zoneField(me.next_zone ?? me.zone);
  const pending = h("p", { class: "note", hidden: true });
  const saved = h("span", { class: "saved", role: "status" });
  about.value = me.bio ?? "";

  const account = form(
    { class: "stack" },
    [name, bio, zone],
    async () => {
      saved.textContent = "";
      const body: UserUpdate = {};
      if (name.input.value !== me.name) body.name = name.input.value;
      if (about.value !== (me.bio ?? "")) body.bio = about.value;
      if (zone.zone() !== (me.next_zone ?? me.zone)) body.zone = zone.zone();
      if (Object.keys(body).length > 0) take(await json<User>("/v1/me", { method: "PATCH", body }));
      saved.textContent = t.words.saved;
    },
    pending,
    h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, t.words.save), saved),
  );
  account.addEventListener("input", () => (saved.textContent = ""));

  // A switch is stored at once, and turns back if that fails.
  const kept = h("span", { class: "saved", role: "status" });
  const toggle = (key: "find_by_id" | "find_by_email" | "requests" | "on_boards", text: string) => {
    const box = h("input", {
      type: "checkbox",
      name: key,
      onchange: async () => {
        kept.textContent = "";
        box.disabled = true;
        try {
          take(await json<User>("/v1/me", { method: "PATCH", body: { [key]: box.checked } satisfies UserUpdate }));
          kept.textContent = t.words.saved;
        } catch (err) {
          failed(err);
        } finally {
          box.disabled = false;
          box.checked = me[key];
          if (document.activeElement === document.body) box.focus(); // disabling has removed the focus
        }
      },
    });
    return { el: h("label", { class: "switch" }, box, h("span", {}, text)), take: () => (box.checked = me[key]) };
  };
  const toggles = [
    toggle("find_by_id", t.profile.findByID),
    toggle("find_by_email", t.profile.findByEmail),
    toggle("requests", t.profile.requests),
    toggle("on_boards", t.profile.onBoards),
  ];

  const chats = chatSettings(me, { signal: closed.signal, failed, changed: (u) => take(u) });
  const pushes = pushCard({ signal: closed.signal, failed });
  const picture = pictureCard(me, (avatar) => take({ ...me, avatar }));
  const devices = devicesCard({ signal: closed.signal, failed, left: on.left });
  const password = passwordCard(me, devices.load);
  const email = emailCard(me, (u) => take(u));
  const deletion = deletionCard(me, on.left);

  // take shows a newer version of the user. Text in a field is not lost.
  function take(u: User): void {
    const same = (f: { value: string }, old: string) => f.value === old;
    if (same(name.input, me.name)) name.input.value = u.name;
    if (same(about, me.bio ?? "")) about.value = u.bio ?? "";
    if (zone.zone() === (me.next_zone ?? me.zone)) zone.choose(u.next_zone ?? u.zone);
    me = u;
    setUser(u);
    pending.hidden = !me.next_zone;
    put(pending, ...t.profile.pending(h("strong", {}, place(me.zone)), h("strong", {}, place(me.next_zone ?? ""))));
    for (const part of [...toggles, chats, picture, password, email, deletion]) part.take(u);
  }

  const load = () => {
    json<User>("/v1/me", { signal: closed.signal }).then(take, failed);
    devices.load();
    chats.load();
  };
  take(me);
  load();

  return {
    el: h(
      "div",
      { class: "narrow" },
      h("h1", {}, t.profile.title),
      h(
        "section",
        { class: "card", "aria-labelledby": "account-title" },
        h("h2", { id: "account-title" }, t.profile.account),
        picture.el,
        account,
      ),
      h(
        "section",
        { class: "card", "aria-labelledby": "others-title" },
        h("h2", { id: "others-title" }, t.profile.whoFinds),
        h("p", { class: "muted" }, ...t.profile.yourID(h("code", {}, me.id))),
        h("div", { class: "stack tight" }, ...toggles.map((t) => t.el), kept),
      ),
      chats.el,
      pushes,
      password.el,
      email.el,
      devices.el,
      deletion.el,
    ),
    close: () => closed.abort(),
    catchUp: load,
    event: (e) => {
      if (e.type === "account.updated") take(e.data as User);
      if (e.type === "session.opened" || e.type === "session.ended") devices.load();
    },
  };
}
