// Password, e-mail address, and the end of the account.

import type { AccountDeleted, AccountDeletion, CodeReply, EmailChange, EmailCodeRequest, PasswordChange, User } from "./api";
import { askCode, askOwnCode, codeField, codeLead, type Sent } from "./codes";
import { dateOf } from "./days";
import { h, put, type Child } from "./dom";
import { field, form, type Field } from "./form";
import { authed, json } from "./session";

const current = (name: string, label: string): Field =>
  field(label, { name, type: "password", required: true, maxlength: 128, autocomplete: "current-password" });

const section = (id: string, title: string, ...children: Child[]) =>
  h("section", { class: "card", "aria-labelledby": `${id}-title`, "data-part": id }, h("h2", { id: `${id}-title` }, title), ...children);

/** Setting the first password, by a code to the address, or changing it. */
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
          set(await askOwnCode(me.email, "set_password"));
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Send me a code")),
      ),
    );
  }

  function show(): void {
    if (me.has_password) set(null);
    else start();
  }

  // set asks for the old password, or for the code that was sent.
  function set(sent: Sent | null): void {
    const old = sent ? codeField(me.email, sent.seen, () => secret.input.focus()) : current("current", "Current password");
    const secret = field("New password", { name: "password", type: "password", required: true, minlength: 8, maxlength: 128, autocomplete: "new-password" }, "At least 8 characters.");
    put(
      body,
      sent && codeLead(me.email, sent),
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
          said.textContent = "Your password is set. All other devices have been logged out.";
          changed();
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, sent ? "Set password" : "Change password"), sent && h("button", { type: "button", class: "link", onclick: start }, "Cancel")),
      ),
    );
    if (sent) old.input.focus();
  }

  show();
  return {
    el: section("password", "Password", h("p", { class: "muted" }, "Changing it logs out all other devices."), body, said),
    take: (u: User) => {
      const same = u.has_password === me.has_password;
      me = u;
      if (!same) show();
    },
  };
}

/** Changing the address: a code goes to the new one, and to the old one where there is no password. */
export function emailCard(me: User, changed: (u: User) => void) {
  const address = h("strong", {}, me.email);
  const body = h("div", { class: "stack" });
  const said = h("p", { class: "saved", role: "status" });
  let email = "";

  function start(focus: boolean): void {
    const mail = field("New address", { name: "email", type: "email", required: true, maxlength: 254, autocomplete: "email", value: email });
    put(
      body,
      form(
        { class: "stack" },
        [mail],
        async () => {
          said.textContent = "";
          email = mail.input.value.trim();
          const old = me.has_password ? null : await askOwnCode(me.email, "leave_email");
          prove(old, await askCode(email, () => json<CodeReply>("/v1/me/email/codes", { method: "POST", body: { email } satisfies EmailCodeRequest })));
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Send me a code")),
      ),
    );
    if (focus) mail.input.focus();
  }

  function prove(old: Sent | null, sent: Sent): void {
    const mine = old ? codeField(me.email, old.seen, () => mine.input.focus(), "Code from the old address", "old_code") : current("password", "Your password");
    const digits = codeField(email, sent.seen, () => mine.input.focus(), old ? "Code from the new address" : "Code");
    put(
      body,
      codeLead(email, sent, ...(old ? ["Six more are on their way to ", h("strong", {}, me.email), ", to prove that the account is yours."] : [])),
      form(
        { class: "stack" },
        [digits, mine],
        async () => {
          const change: EmailChange = { email, code: digits.input.value };
          change[old ? "old_code" : "password"] = mine.input.value;
          changed(await json<User>("/v1/me/email", { method: "PUT", body: change, once: true }));
          email = "";
          start(true);
          said.textContent = "Your address is changed. The old one got a link that takes this back for three days.";
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Change address"), h("button", { type: "button", class: "link", onclick: () => start(true) }, "Cancel")),
      ),
    );
    digits.input.focus();
  }

  start(false);
  return {
    el: section("email", "E-mail address", h("p", { class: "muted" }, "Now ", address, "."), body, said),
    take: (u: User) => {
      me = u;
      address.textContent = u.email;
    },
  };
}

/** The end of the account, which a log-in takes back for a while. */
export function deletionCard(me: User, left: (text: string) => void) {
  const body = h("div");

  function offer(focus: boolean): void {
    const button = h("button", { type: "button", class: "secondary", onclick: ask }, "Delete my account");
    put(body, button);
    if (focus) button.focus();
  }

  function ask(): void {
    const secret = me.has_password ? current("password", "Your password") : null;
    const no = h("button", { type: "button", class: "link", onclick: () => offer(true) }, "Cancel");
    put(
      body,
      form(
        { class: "stack" },
        secret ? [secret] : [],
        async () => {
          const request: AccountDeletion = {};
          if (secret) request.password = secret.input.value;
          const { erased } = await json<AccountDeleted>("/v1/me/deletion", { method: "POST", body: request, once: true });
          left(`Your account is deleted. Until ${dateOf(erased)} logging in brings it back.`);
        },
        h("div", { class: "row" }, h("button", { type: "submit", class: "danger" }, "Yes, delete my account"), no),
      ),
    );
    (secret?.input ?? no).focus();
  }

  offer(false);
  return {
    el: section(
      "deletion",
      "Delete this account",
      h("p", { class: "muted" }, "You are logged out everywhere, and others see a deleted user. For some days logging in brings everything back; then it is erased."),
      body,
    ),
    take: (u: User) => void (me = u),
  };
}
