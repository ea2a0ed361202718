// Signing up and logging in.

import { outbox, send, type CodeReply, type CodeRequest, type LoginRequest, type Mail, type RegisterRequest, type Tokens } from "./api";
import { deviceZone, zones } from "./days";
import { h, put, s, type Child } from "./dom";
import { field, form, type Field } from "./form";
import { begin } from "./session";

type Purpose = CodeRequest["purpose"];

/** The page of somebody who is not logged in; done runs when they are. */
export function welcome(dev: Promise<boolean>, done: () => void): HTMLElement {
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

  const enter = async (path: string, body: RegisterRequest | LoginRequest) => {
    const res = await send(path, { method: "POST", body });
    begin((await res.json()) as Tokens);
    done();
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
      h("p", { class: "lead" }, purpose === "register" ? "Tell us where to send six digits. That is all it takes." : "Welcome back. A code by mail, or your password."),
      form(
        { class: "stack" },
        [mail],
        async () => {
          email = value(mail).trim();
          const seen = (await dev) ? newest(await outbox(email)) : "";
          const res = await send("/v1/auth/codes", { method: "POST", body: { email, purpose } satisfies CodeRequest });
          code(purpose, (await res.json()) as CodeReply, seen);
        },
        h("button", { type: "submit", class: "primary" }, "Send me a code"),
        h(
          "p",
          { class: "links" },
          link("I have a code already", () => check() && code(purpose, null, "")),
          purpose === "login" && link("Use my password", () => password()),
        ),
      ),
    );
  };

  // Second step: the code, and for a new account who it is for.
  const code = (purpose: Purpose, sent: CodeReply | null, seen: string) => {
    const digits = field("Code", {
      name: "code",
      required: true,
      inputmode: "numeric",
      pattern: "[0-9]{6}",
      maxlength: 6,
      title: "six digits",
      autocomplete: "one-time-code",
      placeholder: "······",
      class: "digits",
    });
    const fs = [digits];
    let submit = () => enter("/v1/auth/login", { email, code: value(digits), device: device() });
    if (purpose === "register") {
      const name = field("Name", { name: "name", required: true, maxlength: 40, autocomplete: "nickname", placeholder: "What others see" });
      const zone = field("Time zone", { name: "zone" }, "Your day begins and ends at midnight there.", zoneSelect(deviceZone()));
      const secret = field(
        "Password (optional)",
        { name: "password", type: "password", minlength: 8, maxlength: 128, autocomplete: "new-password" },
        "At least 8 characters. Without one you log in by code.",
      );
      fs.push(name, zone, secret);
      submit = () => {
        const body: RegisterRequest = { email, code: value(digits), name: value(name), zone: value(zone), device: device() };
        if (value(secret)) body.password = value(secret);
        return enter("/v1/auth/register", body);
      };
    }
    const helper = h("div", { class: "helper", hidden: true });
    show(
      2,
      digits,
      h(
        "p",
        { class: "lead" },
        sent ? `Six digits are on their way to ` : `Enter the six digits sent to `,
        h("strong", {}, email),
        sent ? `. They last ${Math.round(sent.expires_in / 60)} minutes. ` : ". ",
        link("Change", () => start(purpose)),
      ),
      form({ class: "stack" }, fs, submit, helper, h("button", { type: "submit", class: "primary" }, purpose === "register" ? "Create my account" : "Log in")),
    );
    digits.el.after(helper);
    void dev.then((there) => {
      if (!there) return;
      const said = h("span", { role: "status" });
      const use = h(
        "button",
        {
          type: "button",
          class: "secondary",
          "data-use-code": true,
          onclick: async () => {
            use.disabled = true;
            said.textContent = "";
            const found = await arrived(email, seen);
            use.disabled = false;
            if (found?.code) {
              digits.input.value = found.code;
              digits.fault("");
              (fs[1]?.input ?? digits.input).focus();
            } else {
              said.textContent = found ? `The outbox says: ${found.subject}.` : "No mail has arrived yet.";
            }
          },
        },
        "Use the code from the development outbox",
      );
      put(helper, h("p", {}, "No mail leaves a development server. ", h("a", { href: "/dev/mail", target: "_blank" }, "Open its outbox")), use, said);
      helper.hidden = false;
    });
  };

  const password = () => {
    const mail = address();
    const secret = field("Password", { name: "password", type: "password", required: true, maxlength: 128, autocomplete: "current-password" });
    show(
      2,
      mail,
      h("p", { class: "lead" }, "Welcome back."),
      form(
        { class: "stack" },
        [mail, secret],
        () => {
          email = value(mail).trim();
          return enter("/v1/auth/login", { email, password: value(secret), device: device() });
        },
        h("button", { type: "submit", class: "primary" }, "Log in"),
        h("p", { class: "links" }, link("Use a code instead", () => start("login"))),
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

const newest = (mails: Mail[] | null) => mails?.[0]?.at ?? "";

// arrived waits for a mail that was not there before the code was asked for: an
// older one has a code that is worth nothing any more.
async function arrived(to: string, seen: string): Promise<Mail | undefined> {
  for (let tries = 0; tries < 20; tries++) {
    const mail = (await outbox(to))?.[0];
    if (mail && mail.at !== seen) return mail;
    await new Promise((done) => setTimeout(done, 250));
  }
  return undefined;
}

/** A choice of time zones. */
export function zoneSelect(chosen: string): HTMLSelectElement {
  return h("select", {}, ...zones(chosen).map((z) => h("option", { value: z, selected: z === chosen }, z.replaceAll("_", " "))));
}

// device guesses what the user would call this device; the sessions list shows it.
function device(): string {
  const ua = navigator.userAgent;
  const first = (pairs: [RegExp, string][], none: string) => pairs.find(([re]) => re.test(ua))?.[1] ?? none;
  const browser = first([[/Edg\//, "Edge"], [/OPR\//, "Opera"], [/Firefox\//, "Firefox"], [/Chrom(e|ium)\//, "Chrome"], [/Safari\//, "Safari"]], "Browser");
  const system = first([[/iPhone/, "iPhone"], [/iPad/, "iPad"], [/Android/, "Android"], [/Windows/, "Windows"], [/Mac OS/, "Mac"], [/Linux/, "Linux"]], "");
  return system ? `${browser} on ${system}` : browser;
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
