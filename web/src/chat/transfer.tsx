// Files between two users, and files that are being uploaded for messages.

import { useSignal } from "@preact/signals";
import type { Transfer } from "@stoa-dev/client";
import { useRef } from "preact/hooks";
import { dateOf } from "../days";
import { h } from "../dom";
import type { Sending } from "../state/files";
import { t as texts } from "../texts";
import { c } from "../texts/chats";
import { Act } from "../ui/act";
import { Sign, type SignName } from "../ui/icon";
import { bytes } from "./attachment";
import { explain, nameIn, type ChatContext } from "./context";
import { timeOf } from "./when";

/** The state of a transfer, as a sentence. */
export function stateOf(t: Transfer, ctx: ChatContext): string {
  const own = t.from === ctx.me.id;
  const other = nameIn(ctx, own ? (t.to ?? "") : t.from);
  switch (t.status) {
    case "pending":
      return own ? c.files.waits(other) : c.files.offered;
    case "transferring":
      if (t.received === t.size) return c.files.checked;
      if (!own) return c.files.coming;
      return ctx.connection.files.upload(t.id) ? c.files.sending : c.files.away;
    case "done":
      if (!t.available) return c.files.over;
      return own ? c.files.sent : c.files.here(dateOf(t.expires));
    case "rejected":
      return own ? c.files.rejected(other) : c.files.youRejected;
    case "failed":
      return c.files.reasons[t.reason ?? "cancelled"];
  }
}

export function TransferItem({ transfer: t, ctx }: { transfer: Transfer; ctx: ChatContext }) {
  const { files } = ctx.connection;
  const own = t.from === ctx.me.id;
  const upload = files.upload(t.id);
  const fault = useSignal(""); // of the last action
  const stopped = upload?.fault ? explain(upload.fault) : "";
  const moving = t.status === "transferring";
  const at = Math.min(t.size, upload?.running ? Math.max(upload.sent, t.received) : t.received);
  const percent = moving && at < t.size ? ` ${c.files.percent(Math.floor((100 * at) / t.size))}` : "";
  return (
    <li class={`message transfer ${own ? "own" : "theirs"}`} tabindex={-1} data-transfer={t.id} data-status={t.status}>
      <div class="speech">
        <span class="sr">{own ? c.youSay : c.says(nameIn(ctx, t.from))}</span>
        <FileBox shape="file" name={t.name} size={t.size} />
        {moving && <progress max={t.size} value={at} aria-label={c.files.progress} />}
        <p class="transfer-state">{stateOf(t, ctx) + percent}</p>
        <p class="fault" role="alert">
          {fault.value || stopped}
        </p>
        <Actions transfer={t} own={own} ctx={ctx} fail={(text) => (fault.value = text)} />
        <p class="meta">
          <time datetime={t.created}>{timeOf(t.created)}</time>
        </p>
      </div>
    </li>
  );
}

interface ActionsProps {
  transfer: Transfer;
  own: boolean;
  ctx: ChatContext;
  fail: (text: string) => void;
}

function Actions({ transfer: t, own, ctx, fail }: ActionsProps) {
  const { files } = ctx.connection;
  const input = useRef<HTMLInputElement>(null);
  const failed = (err: unknown) => fail(explain(err));
  const cancel = (text: string) => (
    <Act kind="link" run={() => files.cancel(t.id)} failed={failed}>
      {text}
    </Act>
  );
  const chosen = () => {
    const el = input.current!;
    const [file] = el.files ?? [];
    if (file && !files.resume(t.id, file)) fail(c.files.another(t.name));
    el.value = "";
  };
  const fetchIt = async () => h("a", { href: await files.link(t.id), download: t.name }).click();
  const upload = files.upload(t.id);
  const halted = own && t.received < t.size && (!upload || Boolean(upload.fault)); // it needs the file again
  switch (t.status) {
    case "pending":
      return (
        <div class="row transfer-verbs">
          {own && cancel(c.files.cancel)}
          {!own && (
            <Act kind="primary" run={() => files.accept(t.id)} failed={failed}>
              {c.files.accept}
            </Act>
          )}
          {!own && (
            <Act run={() => files.reject(t.id)} failed={failed}>
              {c.files.reject}
            </Act>
          )}
        </div>
      );
    case "transferring":
      return (
        <div class="row transfer-verbs">
          {halted && (
            <button type="button" class="secondary" onClick={() => input.current?.click()}>
              {c.files.chooseAgain}
            </button>
          )}
          {halted && (
            <input
              type="file"
              class="sr"
              tabindex={-1}
              aria-label={c.files.chooseAgain}
              ref={input}
              onChange={chosen}
            />
          )}
          {cancel(c.files.cancel)}
        </div>
      );
    case "done":
      if (!t.available) return null;
      return (
        <div class="row transfer-verbs">
          {!own && (
            <Act kind="primary" run={fetchIt} failed={failed}>
              {c.files.download}
            </Act>
          )}
          {cancel(c.files.remove)}
        </div>
      );
    default:
      return null;
  }
}

const FileBox = ({ shape, name, size }: { shape: SignName; name: string; size: number }) => (
  <span class="attached">
    <Sign name={shape} />
    <span class="attached-text">
      <span class="attached-title">{name}</span>
      <span class="attached-detail">{bytes(size)}</span>
    </span>
  </span>
);

/** A file that is being uploaded for a message. */
export function UploadItem({ upload: of, ctx }: { upload: Sending; ctx: ChatContext }) {
  const { files } = ctx.connection;
  files.track(); // the progress changes in place
  return (
    <li class={`message transfer own ${of.fault ? "failed" : "sending"}`} tabindex={-1} data-sending={of.key}>
      <div class="speech">
        <span class="sr">{c.youSay}</span>
        <FileBox
          shape={of.kind === "image" ? "picture" : of.kind}
          name={of.kind === "voice" ? c.kinds.voice : of.file.name}
          size={of.file.size}
        />
        {of.fault ? (
          <p class="fault">{c.notSent(explain(of.fault))}</p>
        ) : (
          <progress max={of.file.size} value={of.sent} aria-label={c.files.progress} />
        )}
        <div class="row transfer-verbs">
          {of.fault ? (
            <Act kind="link" run={() => files.sendAgain(of.key)} failed={ctx.failed}>
              {texts.words.tryAgain}
            </Act>
          ) : null}
          <Act kind="link" run={() => files.unsend(of.key)} failed={ctx.failed}>
            {of.fault ? c.discard : c.files.cancel}
          </Act>
        </div>
      </div>
    </li>
  );
}
