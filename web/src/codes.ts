// Codes by mail, and the development outbox of a development server.

import type { CodeReply, CodeRequest, OwnCodeRequest } from "@stoa-dev/client";
import { outbox, send, server, type Mail } from "./api";
import { h, put, type Child } from "./dom";
import { field, type Field } from "./form";
import { json } from "./session";
import { t } from "./texts";

/** Whether the server stores its mails in a development outbox. */
export const development = server.then((s) => s.development);

/** A code that was requested. */
export interface Sent {
  minutes: number; // until the code expires
  seen: string; // the time of the newest mail in the development outbox before the request
}

/** Requests a code to an address. */
export async function askCode(email: string, ask: () => Promise<CodeReply>): Promise<Sent> {
  const seen = (await development) ? ((await outbox(email))?.[0]?.at ?? "") : "";
  return { minutes: Math.round((await ask()).expires_in / 60), seen };
}

/** askCode for a user who is not logged in. */
export const askCodeFor = (email: string, purpose: CodeRequest["purpose"]): Promise<Sent> =>
  askCode(
    email,
    async () =>
      (await (
        await send("/v1/auth/codes", { method: "POST", body: { email, purpose } satisfies CodeRequest })
      ).json()) as CodeReply,
  );

/** askCode for a code to the user's own address. */
export const askOwnCode = (email: string, purpose: OwnCodeRequest["purpose"]): Promise<Sent> =>
  askCode(email, () => json<CodeReply>("/v1/me/codes", { method: "POST", body: { purpose } satisfies OwnCodeRequest }));

/** The field for the six digits. On a development server, a button next to it loads them. */
export function codeField(email: string, seen: string, filled: () => void, label = t.codes.code, name = "code"): Field {
  const digits = field(label, {
    name,
    required: true,
    inputmode: "numeric",
    pattern: "[0-9]{6}",
    maxlength: 6,
    title: t.codes.sixDigits,
    autocomplete: "one-time-code",
    placeholder: "······",
    class: "digits",
  });
  const helper = h("div", { class: "helper", hidden: true });
  digits.el.append(helper);
  void development.then((there) => {
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
            filled();
          } else {
            said.textContent = found ? t.codes.outboxSays(found.subject) : t.codes.noMail;
          }
        },
      },
      t.codes.useFromOutbox,
    );
    put(
      helper,
      h("p", {}, t.codes.noMailLeaves, h("a", { href: "/dev/mail", target: "_blank" }, t.codes.openOutbox)),
      use,
      said,
    );
    helper.hidden = false;
  });
  return digits;
}

/** "Six digits are on their way to ada@example.com. They last 10 minutes." */
export function codeLead(email: string, sent: Sent | null, ...rest: Child[]): HTMLElement {
  const to = h("strong", {}, email);
  return h("p", { class: "lead" }, ...(sent ? t.codes.sent(to, sent.minutes) : t.codes.enter(to)), ...rest);
}

// arrived waits for a mail that is newer than the request, because an older mail has an invalid code.
async function arrived(to: string, seen: string): Promise<Mail | undefined> {
  for (let tries = 0; tries < 20; tries++) {
    const mail = (await outbox(to))?.[0];
    if (mail && mail.at !== seen) return mail;
    await new Promise((done) => setTimeout(done, 250));
  }
  return undefined;
}
