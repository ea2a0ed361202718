// A file between two users, among their messages.

import type { Transfer } from "@stoa-dev/client";
import { act } from "../buttons";
import { dateOf } from "../days";
import { h, put, type Child } from "../dom";
import { t as texts } from "../texts";
import { c } from "../texts/chats";
import type { Files, Sending } from "./files";
import { sign } from "./icons";
import { explain, nameIn, type Talk } from "./talk";
import { bytes } from "./attachment";
import { timeOf } from "./when";

/** How an upload of this tab continues: by itself, after the user chooses the file again, or after a retry. */
type Way = "runs" | "away" | "stopped";

export interface TransferRow {
  transfer: { to: string } & Pick<
    Transfer,
    "id" | "from" | "name" | "size" | "status" | "reason" | "available" | "created" | "expires"
  >;
  own: boolean;
  checked: boolean; // all bytes have arrived, and the server is checking them
  way: Way;
  fault: string;
}

/** The facts of a transfer that its row is drawn from. {@link showProgress} shows the progress. */
export function transferRow(t: Transfer, files: Files, me: string): TransferRow {
  const up = files.upload(t.id);
  const { id, from, to = "", name, size, status, reason, available, created, expires } = t;
  return {
    transfer: { id, from, to, name, size, status, available, created, expires, ...(reason && { reason }) },
    own: from === me,
    checked: status === "transferring" && t.received === size,
    way: up?.fault ? "stopped" : up ? "runs" : "away",
    fault: up?.fault ? explain(up.fault) : "",
  };
}

export function drawTransfer(r: TransferRow, talk: Talk): HTMLLIElement {
  const { transfer: t, own } = r;
  const { files } = talk.line;
  const wrong = h("p", { class: "fault", role: "alert" }, r.fault);
  const failed = (err: unknown) => void (wrong.textContent = explain(err));
  const doing = (text: string, kind: "primary" | "secondary" | "link", run: () => Promise<unknown>) =>
    act(text, kind, run, failed);
  const fetchIt = async () => h("a", { href: await files.link(t.id), download: t.name }).click();
  const input = h("input", {
    type: "file",
    class: "sr",
    tabindex: -1,
    "aria-label": c.files.chooseAgain,
    onchange: () => {
      const [file] = input.files ?? [];
      if (file && !files.resume(t.id, file)) wrong.textContent = c.files.another(t.name);
      input.value = "";
    },
  });
  const again = h("button", { type: "button", class: "secondary", onclick: () => input.click() }, c.files.chooseAgain);
  const cancel = (text: string) => doing(text, "link", () => files.cancel(t.id));
  const verbs: Child[] = {
    pending: own
      ? [cancel(c.files.cancel)]
      : [
          doing(c.files.accept, "primary", () => files.accept(t.id)),
          doing(c.files.reject, "secondary", () => files.reject(t.id)),
        ],
    transferring: [...(own && r.way !== "runs" && !r.checked ? [again, input] : []), cancel(c.files.cancel)],
    done: t.available ? [own ? null : doing(c.files.download, "primary", fetchIt), cancel(c.files.remove)] : [],
    failed: [],
    rejected: [],
  }[t.status];
  const moving = t.status === "transferring";
  return h(
    "li",
    {
      class: `message transfer ${own ? "own" : "theirs"}`,
      tabindex: -1,
      "data-transfer": t.id,
      "data-status": t.status,
    },
    h(
      "div",
      { class: "speech" },
      h("span", { class: "sr" }, own ? c.youSay : c.says(nameIn(talk, t.from))),
      h(
        "span",
        { class: "attached" },
        sign("file"),
        h(
          "span",
          { class: "attached-text" },
          h("span", { class: "attached-title" }, t.name),
          h("span", { class: "attached-detail" }, bytes(t.size)),
        ),
      ),
      moving && h("progress", { max: t.size, value: 0, "aria-label": c.files.progress }),
      h("p", { class: "transfer-state" }, says(r, talk)),
      wrong,
      verbs.some(Boolean) && h("div", { class: "row transfer-verbs" }, ...verbs),
      h("p", { class: "meta" }, h("time", { datetime: t.created }, timeOf(t.created))),
    ),
  );
}

/** A file that is being uploaded for a message. */
export function drawSending(of: Sending, talk: Talk): HTMLLIElement {
  const { files } = talk.line;
  return h(
    "li",
    { class: `message transfer own ${of.fault ? "failed" : "sending"}`, tabindex: -1, "data-sending": of.key },
    h(
      "div",
      { class: "speech" },
      h("span", { class: "sr" }, c.youSay),
      h(
        "span",
        { class: "attached" },
        sign(of.kind === "image" ? "picture" : of.kind),
        h(
          "span",
          { class: "attached-text" },
          h("span", { class: "attached-title" }, of.kind === "voice" ? c.kinds.voice : of.file.name),
          h("span", { class: "attached-detail" }, bytes(of.file.size)),
        ),
      ),
      of.fault
        ? h("p", { class: "fault" }, c.notSent(explain(of.fault)))
        : h("progress", { max: of.file.size, value: 0, "aria-label": c.files.progress }),
      h(
        "div",
        { class: "row transfer-verbs" },
        of.fault ? act(texts.words.tryAgain, "link", async () => files.sendAgain(of.key), talk.failed) : null,
        act(of.fault ? c.discard : c.files.cancel, "link", () => files.unsend(of.key), talk.failed),
      ),
    ),
  );
}

/** Shows the progress of a file in the row of {@link drawSending}. */
export function showSent(row: HTMLElement, of: Sending): void {
  const bar = row.querySelector("progress");
  if (bar) bar.value = of.sent;
}

/** The state of a transfer, as a sentence. */
export function says({ transfer: t, own, checked, way }: TransferRow, talk: Talk): string {
  const other = nameIn(talk, own ? t.to : t.from);
  switch (t.status) {
    case "pending":
      return own ? c.files.waits(other) : c.files.offered;
    case "transferring":
      if (checked) return c.files.checked;
      if (!own) return c.files.coming;
      return way === "away" ? c.files.away : c.files.sending;
    case "done":
      if (!t.available) return c.files.over;
      return own ? c.files.sent : c.files.here(dateOf(t.expires));
    case "rejected":
      return own ? c.files.rejected(other) : c.files.youRejected;
    case "failed":
      return c.files.reasons[t.reason ?? "cancelled"];
  }
}

/** Shows the progress of a transfer in a row, from this tab's upload or from the server. */
export function showProgress(row: HTMLElement, t: Transfer, files: Files): void {
  const bar = row.querySelector("progress");
  if (!bar) return;
  const up = files.upload(t.id);
  const at = Math.min(t.size, up?.running ? Math.max(up.sent, t.received) : t.received);
  bar.value = at;
  const state = row.querySelector<HTMLElement>(".transfer-state")!;
  const said = (state.dataset["said"] ??= state.textContent ?? "");
  if (at < t.size) put(state, `${said} ${c.files.percent(Math.floor((100 * at) / t.size))}`);
}
