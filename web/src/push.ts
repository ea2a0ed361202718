// Web Push for this browser: its state, on and off. The worker that shows pushes is sw.ts.

import { json as call } from "./session";

/** The response of GET /v1/push; see the Go package api. */
export interface PushStatus {
  subscribed: boolean;
  devices: number;
  messages: boolean;
  requests: boolean;
  notices: boolean;
  previews: boolean;
}

/** unsupported: the browser cannot; denied: the user has forbidden it; off; on. */
export type PushState = "unsupported" | "denied" | "off" | "on";

const WORKER = "/sw.js";

const supported = (): boolean => "serviceWorker" in navigator && "PushManager" in window && "Notification" in window;

// Only this one address becomes a script; see the Content-Security-Policy.
interface Scripts {
  trustedTypes?: {
    createPolicy(
      name: string,
      rules: { createScriptURL(url: string): string },
    ): { createScriptURL(url: string): unknown };
  };
}
let address: unknown;
function workerAddress(): string {
  const types = (window as Scripts).trustedTypes;
  address ??= types
    ? types
        .createPolicy("stoa-worker", {
          createScriptURL: (url) => {
            if (url !== WORKER) throw new TypeError("not the worker");
            return url;
          },
        })
        .createScriptURL(WORKER)
    : WORKER;
  return address as string;
}

const subscription = async (): Promise<PushSubscription | null> =>
  (await (await navigator.serviceWorker.getRegistration("/"))?.pushManager.getSubscription()) ?? null;

/** The state of this browser and of the server. A subscription that the server has lost is off. */
export async function pushState(): Promise<{ state: PushState; status?: PushStatus }> {
  if (!supported()) return { state: "unsupported" };
  const status = await call<PushStatus>("/v1/push");
  if (Notification.permission === "denied") return { state: "denied", status };
  return { state: status.subscribed && (await subscription()) ? "on" : "off", status };
}

/** Asks for the permission, which needs a click, and subscribes. */
export async function enablePush(): Promise<PushState> {
  if (!supported()) return "unsupported";
  if ((await Notification.requestPermission()) !== "granted")
    return Notification.permission === "denied" ? "denied" : "off";
  const { key } = await call<{ key: string }>("/v1/push/key");
  const registration = await navigator.serviceWorker.register(workerAddress(), { scope: "/" });
  await navigator.serviceWorker.ready;
  const known = await registration.pushManager.getSubscription();
  if (known && !sameKey(known, key)) await known.unsubscribe(); // of another server, or of this one with an earlier secret
  const made = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(key) });
  const { endpoint, keys } = made.toJSON();
  await call<PushStatus>("/v1/push/subscription", { method: "PUT", body: { endpoint, keys } });
  return "on";
}

/** Ends the subscription, first on the server, so that it sends no push without a receiver. */
export async function disablePush(): Promise<PushState> {
  await call<PushStatus>("/v1/push/subscription", { method: "DELETE" });
  await (supported() ? await subscription() : null)?.unsubscribe();
  return "off";
}

/** Changes the pushed categories, for all devices of the user. */
export const choosePush = (
  change: Partial<Pick<PushStatus, "messages" | "requests" | "notices" | "previews">>,
): Promise<PushStatus> => call<PushStatus>("/v1/push", { method: "PATCH", body: change });

function bytes(base64url: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (c) => c.charCodeAt(0));
}

function sameKey(of: PushSubscription, key: string): boolean {
  const theirs = of.options.applicationServerKey;
  const ours = bytes(key);
  return theirs !== null && theirs.byteLength === ours.length && new Uint8Array(theirs).every((b, i) => b === ours[i]);
}
