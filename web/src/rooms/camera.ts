// Live video over WebRTC: WHIP publishes a camera, and WHEP plays a stream.

import type { RoomItemSource, StreamKeyed } from "@stoa-dev/client";
import { Refused, Unreachable } from "../api";
import { json, token } from "../session";
import { r } from "../texts/rooms";
import type { Seat } from "./seat";

const AGAIN = 2000; // ms between two tries to play
const LOST = 10_000; // ms without a connection until it is opened again

/** Whether this browser has WebRTC. Some have it disabled, because it reveals addresses. */
export const canStream = () => typeof RTCPeerConnection !== "undefined";

interface Session {
  answer: string;
  end: () => Promise<void>;
}

// exchange sends an offer and returns the session. The server's answer has all its candidates, and it needs none of the
// client's.
async function exchange(path: string, bearer: string, pc: RTCPeerConnection): Promise<Session> {
  await pc.setLocalDescription();
  let res: Response;
  try {
    res = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/sdp", Authorization: `Bearer ${bearer}` },
      body: pc.localDescription!.sdp,
      cache: "no-store",
    });
  } catch {
    throw new Unreachable();
  }
  if (res.status !== 201) {
    const problem = (res.headers.get("Content-Type") ?? "").startsWith("application/problem+json")
      ? await res.json()
      : { type: "about:blank", title: res.statusText, status: res.status, code: "" };
    throw new Refused(problem, Number(res.headers.get("Retry-After")) || 0);
  }
  const at = res.headers.get("Location") ?? "";
  return {
    answer: await res.text(),
    end: async () => {
      // the server also detects it itself
      if (at)
        await fetch(at, { method: "DELETE", headers: { Authorization: `Bearer ${bearer}` }, keepalive: true }).catch(
          () => {},
        );
    },
  };
}

/** The broadcast of a camera to a room. */
export interface Broadcast {
  item: string; // on the playlist
  stop: () => Promise<void>;
}

/**
 * Publishes this device's camera, and adds it to the room's playlist. ended is called when the camera is disconnected.
 */
export async function broadcast(seat: Seat, title: string, ended: () => void): Promise<Broadcast> {
  const camera = await navigator.mediaDevices.getUserMedia({
    video: { width: { ideal: 1280 }, height: { ideal: 720 } },
    audio: true,
  });
  const pc = new RTCPeerConnection();
  let stream = "";
  let session: Session | undefined;
  let item = "";
  const stop = async () => {
    for (const track of camera.getTracks()) track.stop();
    await session?.end(); // before the connection closes and the stream is deleted: both end the session
    pc.close();
    if (item) await seat.ask(`/playlist/${item}`, { method: "DELETE" }).catch(() => {}); // another user may have removed it
    if (stream) await json(`/v1/streams/${stream}`, { method: "DELETE" });
  };
  try {
    stream = (await json<StreamKeyed>("/v1/streams", { method: "POST", body: { title } })).stream.id;
    for (const track of camera.getTracks()) {
      pc.addTransceiver(track, { direction: "sendonly" });
      track.onended = ended;
    }
    pc.onconnectionstatechange = () => pc.connectionState === "failed" && ended();
    session = await exchange(`/v1/streams/${stream}/whip`, await token(), pc);
    await pc.setRemoteDescription({ type: "answer", sdp: session.answer });
    ({ id: item } = await seat.ask<{ id: string }>("/playlist", {
      method: "POST",
      body: { kind: "live", source: stream, title },
    }));
  } catch (err) {
    await stop().catch(() => {});
    throw err;
  }
  return { item, stop };
}

/** Plays a live stream in a video while it is on air, and otherwise waits for it. */
export class Watched {
  #pc: RTCPeerConnection | undefined;
  #session: Session | undefined;
  #later: ReturnType<typeof setTimeout> | undefined;
  #over = false;

  constructor(
    private readonly video: HTMLVideoElement,
    private readonly source: () => Promise<RoomItemSource>, // its token is valid for some minutes
    private readonly waits: (waits: boolean) => void,
    private readonly failed: (err: unknown) => void,
  ) {
    void this.#begin();
  }

  close(): void {
    this.#over = true;
    this.#end();
  }

  #end(): void {
    clearTimeout(this.#later);
    this.#pc?.close();
    void this.#session?.end();
    this.#pc = this.#session = undefined;
    this.video.srcObject = null; // remove the last picture
  }

  #again(after = AGAIN): void {
    if (this.#over) return;
    this.#end();
    this.waits(true);
    this.#later = setTimeout(() => void this.#begin(), after);
  }

  async #begin(): Promise<void> {
    if (!canStream()) return this.failed(new Error(r.cannotPlay));
    const pc = new RTCPeerConnection();
    this.#pc = pc;
    this.waits(true);
    const media = new MediaStream();
    pc.ontrack = ({ track }) => {
      media.addTrack(track);
      if (this.video.srcObject !== media) this.video.srcObject = media;
    };
    pc.onconnectionstatechange = () => {
      if (this.#pc !== pc) return;
      clearTimeout(this.#later);
      switch (pc.connectionState) {
        case "connected":
          return this.waits(false);
        case "disconnected":
          this.#later = setTimeout(() => this.#again(), LOST);
          return;
        case "failed":
        case "closed":
          return this.#again();
      }
    };
    for (const kind of ["video", "audio"]) pc.addTransceiver(kind, { direction: "recvonly" });
    try {
      const { url = "", token: ticket = "" } = await this.source();
      const session = await exchange(url, ticket, pc);
      if (this.#pc !== pc) return void session.end();
      this.#session = session;
      await pc.setRemoteDescription({ type: "answer", sdp: session.answer });
      // The server closes the transport when the session ends. The state of the connection changes some seconds later.
      for (const { transport } of pc.getReceivers())
        transport?.addEventListener("statechange", () => {
          if (transport.state !== "closed" || this.#pc !== pc) return;
          this.#session = undefined; // the server has ended it
          this.#again();
        });
    } catch (err) {
      if (this.#pc !== pc) return;
      // 401: a node of another version made the token
      const wait =
        err instanceof Unreachable ||
        (err instanceof Refused &&
          (err.problem.code === "live.off_air" || err.problem.status === 503 || err.problem.status === 401));
      if (wait) return this.#again(err instanceof Refused && err.retryAfter ? err.retryAfter * 1000 : AGAIN);
      this.#end();
      this.failed(err);
    }
  }
}
