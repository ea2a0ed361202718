// The logged-in devices of the user.

import { signal } from "@preact/signals";
import type { Session, Sessions } from "@stoa-dev/client";
import { render } from "preact";
import { useRef } from "preact/hooks";
import { now, Refused } from "./api";
import { agentWords } from "./agent";
import { ago, dateOf } from "./days";
import { h } from "./dom";
import { authed, json } from "./session";
import { t } from "./texts";
import { Act, Twice } from "./ui/act";
import { useKeptFocus } from "./ui/focus";

interface Around {
  signal: AbortSignal;
  failed: (err: unknown) => void;
  left: (text: string) => void;
}

export function devicesCard(on: Around) {
  const { failed } = on;
  const sessions = signal<Session[] | undefined>(undefined);
  const said = signal("");

  // the number of reads: an event may start another one, and only the latest counts
  let reads = 0;
  async function load(): Promise<void> {
    const read = ++reads;
    const got = await json<Sessions>("/v1/sessions", { signal: on.signal });
    if (read !== reads) return;
    sessions.value = got.sessions;
    if (got.sessions.length > 1) said.value = ""; // the message about the other devices is outdated
  }
  async function out(d: Session): Promise<void> {
    await authed(`/v1/sessions/${d.device}`, { method: "DELETE" }).catch((err: unknown) => {
      // The session has already ended, which was the aim.
      if (!(err instanceof Refused && err.problem.status === 404)) throw err;
    });
    if (d.current) return on.left(t.frame.out);
    await load();
  }
  async function outOthers(): Promise<void> {
    await authed("/v1/sessions?others=true", { method: "DELETE" });
    await load();
    said.value = t.devices.othersOut;
  }
  async function outAll(): Promise<void> {
    await authed("/v1/sessions", { method: "DELETE" });
    on.left(t.devices.allOut);
  }

  const Devices = () => {
    const title = useRef<HTMLHeadingElement>(null);
    const body = useRef<HTMLDivElement>(null);
    const all = sessions.value;
    useKeptFocus(body, () => title.current);
    return (
      <>
        <h2 id="devices-title" tabindex={-1} ref={title}>
          {t.devices.title}
        </h2>
        <div class="embedded" ref={body}>
          <ul class="devices">
            {!all && <li class="muted">{t.words.moment}</li>}
            {all?.map((d) => (
              <Device key={d.device} session={d} out={() => out(d)} failed={failed} />
            ))}
          </ul>
          <div class="row">
            {(!all || all.length > 1) && (
              <Twice text={t.devices.outOthers} sure={t.devices.outOthersSure} run={outOthers} failed={failed} />
            )}
            <Twice key="all" text={t.devices.outAll} sure={t.devices.outAllSure} run={outAll} failed={failed} />
          </div>
        </div>
        <span class="saved" role="status">
          {said.value}
        </span>
      </>
    );
  };
  const el = h("section", { class: "card", "aria-labelledby": "devices-title", "data-part": "devices" });
  render(<Devices />, el);
  return { el, load: () => void load().catch(failed) };
}

interface DeviceProps {
  session: Session;
  out: () => Promise<void>;
  failed: (err: unknown) => void;
}

function Device({ session: d, out, failed }: DeviceProps) {
  const words = agentWords(d.agent ?? "");
  const name = d.name || words || t.devices.unnamed;
  const facts = [
    words !== name && words,
    d.ip || t.devices.unknownAddress,
    t.devices.used(ago(d.used, now())),
    t.devices.since(dateOf(d.created)),
  ];
  return (
    <li data-device={d.device}>
      <div>
        <p class="device-name">
          {name}
          {d.current && <span class="you">{t.devices.this}</span>}
        </p>
        <p class="muted" title={d.agent}>
          {facts.filter(Boolean).join(" · ")}
        </p>
      </div>
      <Act run={out} failed={failed} label={t.devices.outName(name, d.current)}>
        {t.devices.out}
      </Act>
    </li>
  );
}
