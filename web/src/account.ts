// Password, e-mail address, and deletion of the account.

import type {
  AccountDeleted,
  AccountDeletion,
  CodeReply,
  EmailChange,
  EmailCodeRequest,
  PasswordChange,
  User,
} from "@stoa-dev/client";
import { askCode, askOwnCode, codeField, codeLead, type Sent } from "./codes";
import { dateOf } from "./days";
import { h, put, type Child } from "./dom";
import { field, form, type Field } from "./form";
import { authed, json } from "./session";
import { t } from "./texts";

const current = (name: string, label: string): Field =>
  field(label, { name, type: "password", required: true, maxlength: 128, autocomplete: "current-password" });

const section = (id: string, title: string, ...children: Child[]) =>
  h(
    "section",
    { class: "card", "aria-labelledby": `${id}-title`, "data-part": id },
    h("h2", { id: `${id}-title` }, title),
    ...children,
  );

/** The form for the first password, with a code to the address, or for a change of the password. */
export function passwordCard(me: User, changed: () => void) {
  const body = h("div");
  const said = h("p", { class: "saved", role: "status" });

  function start(): void {
    put(
      body,
      form(
        { class: "stack" },
        [],
        async () => {
          said.textContent = "";
          set(await askOwnCode(me.email ?? "", "set_password"));
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, t.welcome.sendCode)),
      ),
    );
  }

  function show(): void {
    if (me.has_password) set(null);
    else start();
  }

  // set shows the form with the old password, or with the code that was sent.
  function set(sent: Sent | null): void {
    const old = sent
      ? codeField(me.email ?? "", sent.seen, () => secret.input.focus())
      : current("current", t.account.current);
    const secret = field(
      t.welcome.newPassword,
      {
        name: "password",
        type: "password",
        required: true,
        minlength: 8,
        maxlength: 128,
        autocomplete: "new-password",
      },
      t.welcome.passwordHint,
    );
    put(
      body,
      sent && codeLead(me.email ?? "", sent),
      form(
        { class: "stack" },
        [old, secret],
        async () => {
          said.textContent = "";
          const change: PasswordChange = { password: secret.input.value };
          change[sent ? "code" : "current"] = old.input.value;
          await authed("/v1/me/password", { method: "PUT", body: change, once: true });
          me = { ...me, has_password: true };
          show();
          said.textContent = t.account.passwordSet;
          changed();
        },
        h(
          "div",
          { class: "row" },
          h("button", { type: "submit", class: "primary" }, sent ? t.account.setPassword : t.account.changePassword),
          sent && h("button", { type: "button", class: "link", onclick: start }, t.words.cancel),
        ),
      ),
    );
    if (sent) old.input.focus();
  }

  show();
  return {
    el: section("password", t.account.passwordTitle, h("p", { class: "muted" }, t.account.passwordText), body, said),
    take: (u: User) => {
      const same = u.has_password === me.has_password;
      me = u;
      if (!same) show();
    },
  };
}

/** The form for a change of address. A code goes to the new address, and to the old one if there is no password. */
export function emailCard(me: User, changed: (u: User) => void) {
  const address = h("strong", {}, me.email);
  const body = h("div", { class: "stack" });
  const said = h("p", { class: "saved", role: "status" });
  let email = "";

  function start(focus: boolean): void {
    const mail = field(t.account.newAddress, {
      name: "email",
      type: "email",
      required: true,
      maxlength: 254,
      autocomplete: "email",
      value: email,
    });
    put(
      body,
      form(
        { class: "stack" },
        [mail],
        async () => {
          said.textContent = "";
          email = mail.input.value.trim();
          const old = me.has_password ? null : await askOwnCode(me.email ?? "", "leave_email");
          prove(
            old,
            await askCode(email, () =>
              json<CodeReply>("/v1/me/email/codes", { method: "POST", body: { email } satisfies EmailCodeRequest }),
            ),
          );
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, t.welcome.sendCode)),
      ),
    );
    if (focus) mail.input.focus();
  }

  function prove(old: Sent | null, sent: Sent): void {
    const mine = old
      ? codeField(me.email ?? "", old.seen, () => mine.input.focus(), t.account.codeOfOld, "old_code")
      : current("password", t.account.yours);
    const digits = codeField(email, sent.seen, () => mine.input.focus(), old ? t.account.codeOfNew : t.codes.code);
    put(
      body,
      codeLead(email, sent, ...(old ? t.account.alsoToOld(h("strong", {}, me.email)) : [])),
      form(
        { class: "stack" },
        [digits, mine],
        async () => {
          const change: EmailChange = { email, code: digits.input.value };
          change[old ? "old_code" : "password"] = mine.input.value;
          changed(await json<User>("/v1/me/email", { method: "PUT", body: change, once: true }));
          email = "";
          start(true);
          said.textContent = t.account.addressChanged;
        },
        h(
          "div",
          { class: "row" },
          h("button", { type: "submit", class: "primary" }, t.account.changeAddress),
          h("button", { type: "button", class: "link", onclick: () => start(true) }, t.words.cancel),
        ),
      ),
    );
    digits.input.focus();
  }

  start(false);
  return {
    el: section(
      "email",
      t.account.addressTitle,
      h("p", { class: "muted" }, ...t.account.addressNow(address)),
      body,
      said,
    ),
    take: (u: User) => {
      me = u;
      address.textContent = u.email ?? "";
    },
  };
}

/** The deletion of the account. A log-in cancels it during the grace period. */
export function deletionCard(me: User, left: (text: string) => void) {
  const body = h("div");

  function offer(focus: boolean): void {
    const button = h("button", { type: "button", class: "secondary", onclick: ask }, t.account.delete);
    put(body, button);
    if (focus) button.focus();
  }

  function ask(): void {
    const secret = me.has_password ? current("password", t.account.yours) : null;
    const no = h("button", { type: "button", class: "link", onclick: () => offer(true) }, t.words.cancel);
    put(
      body,
      form(
        { class: "stack" },
        secret ? [secret] : [],
        async () => {
          const request: AccountDeletion = {};
          if (secret) request.password = secret.input.value;
          const { erased } = await json<AccountDeleted>("/v1/me/deletion", {
            method: "POST",
            body: request,
            once: true,
          });
          left(t.account.deleted(dateOf(erased)));
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "danger" }, t.account.deleteSure), no),
      ),
    );
    (secret?.input ?? no).focus();
  }

  offer(false);
  return {
    el: section("deletion", t.account.deleteTitle, h("p", { class: "muted" }, t.account.deleteText), body),
    take: (u: User) => void (me = u),
  };
}
