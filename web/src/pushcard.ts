// The part of the profile about alerts on this device: while the page is open but hidden, and while it is closed.

import { act } from "./buttons";
import { h, put } from "./dom";
import { choosePush, disablePush, enablePush, pushState, type PushState, type PushStatus } from "./push";
import { t } from "./texts";
import { c } from "./texts/chats";
import { p } from "./texts/push";
import { alertState, setAlerts } from "./chat/alerts";

const KINDS = ["messages", "requests", "notices", "previews"] as const;

export function pushCard(on: { signal: AbortSignal; failed: (err: unknown) => void }): HTMLElement {
  const body = h("div", { class: "stack tight" });
  const said = h("span", { class: "saved", role: "status" });

  const alerts = h("input", {
    type: "checkbox",
    name: "alerts",
    onchange: () => void setAlerts(alerts.checked).then(showAlerts),
  });
  const alertsHint = h("p", { class: "hint" });
  const showAlerts = () => {
    const state = alertState();
    alerts.checked = state === "on";
    alerts.disabled = state === "denied" || state === "none";
    alertsHint.textContent = c.alertsHint[state];
  };

  const load = async () => {
    const { state, status } = await pushState();
    if (!on.signal.aborted) show(state, status);
  };

  function show(state: PushState, status: PushStatus | undefined): void {
    const turn = (text: string, run: () => Promise<PushState>) =>
      act(
        text,
        "secondary",
        async () => {
          said.textContent = p.waits;
          try {
            await run();
          } finally {
            said.textContent = "";
          }
          await load();
        },
        on.failed,
      );
    const choice = (kind: (typeof KINDS)[number]) => {
      const box = h("input", {
        type: "checkbox",
        name: `push_${kind}`,
        onchange: async () => {
          said.textContent = "";
          try {
            box.checked = (await choosePush({ [kind]: box.checked }))[kind];
            said.textContent = t.words.saved;
          } catch (err) {
            box.checked = !box.checked;
            on.failed(err);
          }
        },
      });
      box.checked = status?.[kind] ?? false;
      return h("label", { class: "switch" }, box, h("span", {}, p[kind]));
    };
    put(
      body,
      state === "unsupported" || state === "denied"
        ? h("p", { class: "hint" }, p[state])
        : turn(state === "on" ? p.disable : p.enable, state === "on" ? disablePush : enablePush),
      ...(status && (state === "on" || status.devices > 0) ? KINDS.map(choice) : []),
      said,
    );
  }

  showAlerts();
  load().catch(on.failed);
  return h(
    "section",
    { class: "card", "aria-labelledby": "push-title", "data-part": "push" },
    h("h2", { id: "push-title" }, p.title),
    h("div", { class: "stack tight" }, h("label", { class: "switch" }, alerts, h("span", {}, c.alerts)), alertsHint),
    h("p", { class: "muted" }, p.about),
    body,
  );
}
