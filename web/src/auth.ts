// Signing up and logging in.

import { send, type CodeRequest, type LoginRequest, type PasswordReset, type RegisterRequest, type Tokens } from "./api";
import { agentWords } from "./agent";
import { askCodeFor, codeField, codeLead, type Sent } from "./codes";
import { deviceZone, zones } from "./days";
import { h, put, s, type Child } from "./dom";
import { field, form, type Field } from "./form";
import { begin } from "./session";

type Purpose = CodeRequest["purpose"];

/** The page of somebody who is not logged in; done runs when they are, with what they should know. */
export function welcome(done: (news: string) => void, why = ""): HTMLElement {
  const panel = h("div", { class: "auth-panel" });
  const choice = (value: Purpose, text: string) =>
    h(
      "label",
      {},
      h("input", { type: "radio", name: "purpose", value, checked: value === "register", onchange: () => start(value) }),
      h("span", {}, text),
    );

  let email = "";
  const card = h(
    "section",
    { class: "card auth", "aria-labelledby": "auth-title" },
    h("h2", { id: "auth-title", class: "sr" }, "Sign up or log in"),
    h("fieldset", { class: "segmented" }, h("legend", { class: "sr" }, "What would you like to do?"), choice("register", "Sign up"), choice("login", "Log in")),
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
    field("E-mail", { name: "email", type: "email", required: true, maxlength: 254, autocomplete: "email", placeholder: "you@example.com", value: email });
  const newPassword = (label: string, required: boolean, hint: string) =>
    field(label, { name: "password", type: "password", required, minlength: 8, maxlength: 128, autocomplete: "new-password" }, hint);

  const enter = async (path: string, body: RegisterRequest | LoginRequest, news = "") => {
    const res = await send(path, { method: "POST", body });
    const tokens = (await res.json()) as Tokens;
    begin(tokens);
    done(tokens.restored ? "Welcome back. Your account is restored: it will not be deleted." : news);
  };

  const leads: Record<Purpose, string> = {
    register: "Tell us where to send six digits. That is all it takes.",
    login: "Welcome back. A code by mail, or your password.",
    reset_password: "A code by mail lets you set a new password. It logs you out on all devices.",
  };

  // First step: an address.
  const start = (purpose: Purpose, focus = true) => {
    const mail = address();
    const check = () => {
      email = value(mail).trim();
      return mail.input.reportValidity();
    };
    show(
      1,
      focus ? mail : null,
      h("p", { class: "lead" }, leads[purpose]),
      form(
        { class: "stack" },
        [mail],
        async () => {
          email = value(mail).trim();
          code(purpose, await askCodeFor(email, purpose));
        },
        h("button", { type: "submit", class: "primary" }, "Send me a code"),
        h(
          "p",
          { class: "links" },
          link("I have a code already", () => check() && code(purpose, null)),
          purpose === "login" && link("Use my password", () => password()),
          purpose === "reset_password" && link("Back", () => password()),
        ),
      ),
    );
  };

  // Second step: the code, and what it is good for.
  const code = (purpose: Purpose, sent: Sent | null) => {
    const digits = codeField(email, sent?.seen ?? "", () => (fs[1]?.input ?? digits.input).focus());
    const fs = [digits];
    let submit = () => enter("/v1/auth/login", { email, code: value(digits), device: agentWords(navigator.userAgent) });
    if (purpose === "register") {
      const name = field("Name", { name: "name", required: true, maxlength: 40, autocomplete: "nickname", placeholder: "What others see" });
      const zone = field("Time zone", { name: "zone" }, "Your day begins and ends at midnight there.", zoneSelect(deviceZone()));
      const secret = newPassword("Password (optional)", false, "At least 8 characters. Without one you log in by code.");
      fs.push(name, zone, secret);
      submit = () => {
        const body: RegisterRequest = { email, code: value(digits), name: value(name), zone: value(zone), device: agentWords(navigator.userAgent) };
        if (value(secret)) body.password = value(secret);
        return enter("/v1/auth/register", body);
      };
    }
    if (purpose === "reset_password") {
      const secret = newPassword("New password", true, "At least 8 characters.");
      fs.push(secret);
      let set = ""; // a code is good for one use: what failed after it is not done again
      submit = async () => {
        const body: PasswordReset = { email, code: value(digits), password: value(secret) };
        if (set !== body.password) await send("/v1/auth/password", { method: "POST", body });
        set = body.password;
        await enter("/v1/auth/login", { email, password: body.password, device: agentWords(navigator.userAgent) }, "Your password is changed. All other devices have been logged out.");
      };
    }
    const texts: Record<Purpose, string> = { register: "Create my account", login: "Log in", reset_password: "Set it and log in" };
    show(
      2,
      digits,
      codeLead(email, sent, link("Change", () => start(purpose))),
      form({ class: "stack" }, fs, submit, h("button", { type: "submit", class: "primary" }, texts[purpose])),
    );
  };

  const password = () => {
    const mail = address();
    const secret = field("Password", { name: "password", type: "password", required: true, maxlength: 128, autocomplete: "current-password" });
    const keep = (then: () => void) => () => {
      email = value(mail).trim();
      then();
    };
    show(
      2,
      mail,
      h("p", { class: "lead" }, "Welcome back."),
      form(
        { class: "stack" },
        [mail, secret],
        () => {
          email = value(mail).trim();
          return enter("/v1/auth/login", { email, password: value(secret), device: agentWords(navigator.userAgent) });
        },
        h("button", { type: "submit", class: "primary" }, "Log in"),
        h("p", { class: "links" }, link("Use a code instead", keep(() => start("login"))), link("Forgot your password?", keep(() => start("reset_password")))),
      ),
    );
  };

  const page = h(
    "div",
    { class: "welcome" },
    h(
      "section",
      { class: "pitch" },
      colonnade(),
      h("h1", {}, "Show up.", h("br"), "Every day."),
      why && h("p", { class: "note" }, why),
      h(
        "p",
        {},
        "One tap a day builds a streak that is kept by your own midnight, on all your devices at once. " +
          "It runs on Stoa, an open-source social and real-time backend in one Go binary. ",
        h("a", { href: "/docs" }, "Read its API"),
      ),
    ),
    card,
  );
  start("register", false);
  return page;
}

/** A choice of time zones. */
export function zoneSelect(chosen: string): HTMLSelectElement {
  return h("select", {}, ...zones(chosen).map((z) => h("option", { value: z, selected: z === chosen }, z.replaceAll("_", " "))));
}

// colonnade draws a stoa out of the days of a year.
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
      cells.push(s("rect", { x: x * 10, y: y * 10, width: 8, height: 8, rx: 2, class: `l${level} wave${(x + y) % 12}` }));
    }
  }
  return s("svg", { viewBox: "-1 -1 340 190", class: "colonnade", "aria-hidden": "true" }, ...cells);
}
