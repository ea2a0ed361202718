// Registration and log-in.

import type { CodeRequest, LoginRequest, PasswordReset, RegisterRequest, Tokens } from "@stoa-dev/client";
import { send, server } from "./api";
import { agentWords } from "./agent";
import { askCodeFor, codeField, codeLead, type Sent } from "./codes";
import { h, put, s, type Child } from "./dom";
import { field, form, type Field } from "./form";
import { begin } from "./session";
import { t } from "./texts";
import { deviceZone, zoneField } from "./zones";

type Purpose = CodeRequest["purpose"];

/**
 * The page of a visitor. done runs after the log-in, with a message for the user. Without pitch, only why and the form
 * are shown.
 */
export function welcome(done: (news: string) => void, why = "", pitch = true): HTMLElement {
  const panel = h("div", { class: "auth-panel" });
  const choice = (value: Purpose, text: string) =>
    h(
      "label",
      {},
      h("input", {
        type: "radio",
        name: "purpose",
        value,
        checked: value === "register",
        onchange: () => start(value),
      }),
      h("span", {}, text),
    );

  let email = "";
  const card = h(
    "section",
    { class: "card auth", "aria-labelledby": "auth-title" },
    h("h2", { id: "auth-title", class: "sr" }, t.welcome.signUpOrLogIn),
    h(
      "fieldset",
      { class: "segmented" },
      h("legend", { class: "sr" }, t.welcome.what),
      choice("register", t.welcome.signUp),
      choice("login", t.welcome.logIn),
    ),
    panel,
  );

  const show = (step: 1 | 2, focus: Field | null, ...children: Child[]) => {
    put(panel, ...children);
    page.classList.toggle("entering", step === 2);
    if (focus) focus.input.focus({ preventScroll: true });
  };
  const link = (text: string, onclick: () => void) => h("button", { type: "button", class: "link", onclick }, text);
  const value = (f: Field) => f.input.value;
  const address = () =>
    field(t.welcome.email, {
      name: "email",
      type: "email",
      required: true,
      maxlength: 254,
      autocomplete: "email",
      placeholder: t.welcome.emailExample,
      value: email,
    });
  const newPassword = (label: string, required: boolean, hint: string) =>
    field(
      label,
      { name: "password", type: "password", required, minlength: 8, maxlength: 128, autocomplete: "new-password" },
      hint,
    );

  const enter = async (path: string, body: RegisterRequest | LoginRequest, news = "") => {
    const res = await send(path, { method: "POST", body });
    const tokens = (await res.json()) as Tokens;
    begin(tokens);
    done(tokens.restored ? t.welcome.restored : news);
  };

  // First step: the address.
  const start = (purpose: Purpose, focus = true) => {
    const mail = address();
    const check = () => {
      email = value(mail).trim();
      return mail.input.reportValidity();
    };
    show(
      1,
      focus ? mail : null,
      h("p", { class: "lead" }, t.welcome.leads[purpose]),
      form(
        { class: "stack" },
        [mail],
        async () => {
          email = value(mail).trim();
          code(purpose, await askCodeFor(email, purpose));
        },
        h("button", { type: "submit", class: "primary" }, t.welcome.sendCode),
        h(
          "p",
          { class: "links" },
          link(t.welcome.haveCode, () => check() && code(purpose, null)),
          purpose === "login" && link(t.welcome.usePassword, () => password()),
          purpose === "reset_password" && link(t.words.back, () => password()),
        ),
      ),
    );
  };

  // Second step: the code, and the fields of its purpose.
  const code = (purpose: Purpose, sent: Sent | null) => {
    const digits = codeField(email, sent?.seen ?? "", () => (fs[1]?.input ?? digits.input).focus());
    const fs = [digits];
    let submit = () => enter("/v1/auth/login", { email, code: value(digits), device: agentWords(navigator.userAgent) });
    if (purpose === "register") {
      const name = field(t.welcome.name, {
        name: "name",
        required: true,
        maxlength: 40,
        autocomplete: "nickname",
        placeholder: t.welcome.nameExample,
      });
      const zone = zoneField(deviceZone());
      const secret = newPassword(t.welcome.passwordOptional, false, t.welcome.passwordOptionalHint);
      fs.push(name, zone, secret);
      submit = () => {
        const body: RegisterRequest = {
          email,
          code: value(digits),
          name: value(name),
          zone: zone.zone(),
          device: agentWords(navigator.userAgent),
        };
        if (value(secret)) body.password = value(secret);
        return enter("/v1/auth/register", body);
      };
    }
    if (purpose === "reset_password") {
      const secret = newPassword(t.welcome.newPassword, true, t.welcome.passwordHint);
      fs.push(secret);
      let set = ""; // a code works once: if a later step fails, this one is not repeated
      submit = async () => {
        const body: PasswordReset = { email, code: value(digits), password: value(secret) };
        if (set !== body.password) await send("/v1/auth/password", { method: "POST", body });
        set = body.password;
        await enter(
          "/v1/auth/login",
          { email, password: body.password, device: agentWords(navigator.userAgent) },
          t.welcome.passwordChanged,
        );
      };
    }
    show(
      2,
      digits,
      codeLead(
        email,
        sent,
        link(t.words.change, () => start(purpose)),
      ),
      form(
        { class: "stack" },
        fs,
        submit,
        h("button", { type: "submit", class: "primary" }, t.welcome.submit[purpose]),
      ),
    );
  };

  const password = () => {
    const mail = address();
    const secret = field(t.welcome.password, {
      name: "password",
      type: "password",
      required: true,
      maxlength: 128,
      autocomplete: "current-password",
    });
    const keep = (then: () => void) => () => {
      email = value(mail).trim();
      then();
    };
    show(
      2,
      mail,
      h("p", { class: "lead" }, t.welcome.enterPassword),
      form(
        { class: "stack" },
        [mail, secret],
        () => {
          email = value(mail).trim();
          return enter("/v1/auth/login", { email, password: value(secret), device: agentWords(navigator.userAgent) });
        },
        h("button", { type: "submit", class: "primary" }, t.welcome.logIn),
        h(
          "p",
          { class: "links" },
          link(
            t.welcome.useCode,
            keep(() => start("login")),
          ),
          link(
            t.welcome.forgot,
            keep(() => start("reset_password")),
          ),
        ),
      ),
    );
  };

  const reason = why && h("p", { class: "note" }, why);
  const page = pitch
    ? h(
        "div",
        { class: "welcome" },
        h(
          "section",
          { class: "pitch" },
          colonnade(),
          h("h1", {}, t.welcome.title[0]!, h("br"), t.welcome.title[1]!),
          reason,
          h("p", {}, t.welcome.pitch, h("a", { href: "/docs" }, t.welcome.readAPI)),
        ),
        card,
      )
    : h("div", { class: "narrow stack" }, reason, card);
  void server.then(({ sign_in }) =>
    sign_in === "jwt" ? put(card, h("p", { class: "lead" }, t.welcome.byApp)) : start("register", false),
  );
  return page;
}

// colonnade draws a stoa from the days of a year.
function colonnade(): SVGSVGElement {
  const cells: Child[] = [];
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const wide = 34;
  for (let y = 0; y < 19; y++) {
    for (let x = 0; x < wide; x++) {
      const off = Math.abs(x - (wide - 1) / 2);
      const roof = y < 6 && off <= 1.5 + y * 2.6;
      const beam = y === 6;
      const column = y > 7 && y < 16 && x % 6 >= 1 && x % 6 <= 2;
      const step = y === 17 ? off < 16 : y === 18;
      if (!(roof || beam || column || step)) continue;
      const level = 1 + Math.floor(random() * 4);
      cells.push(
        s("rect", { x: x * 10, y: y * 10, width: 8, height: 8, rx: 2, class: `l${level} wave${(x + y) % 12}` }),
      );
    }
  }
  return s("svg", { viewBox: "-1 -1 340 190", class: "colonnade", "aria-hidden": "true" }, ...cells);
}
