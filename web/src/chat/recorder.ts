// Recording of a voice message.

import { act } from "../buttons";
import { h } from "../dom";
import { t } from "../texts";
import { c } from "../texts/chats";

const TYPES = ["audio/webm;codecs=opus", "audio/ogg;codecs=opus", "audio/mp4"]; // types that the server supports, best first
const LOOK = 100; // ms between two measurements of the loudness
const LONGEST = 15 * 60_000; // ms
const PARTS = 60; // parts of the recording's waveform

export interface Recording {
  file: File;
  duration: number; // ms
  waveform: number[]; // 0 to 100
}

interface Told {
  done: (r: Recording) => void;
  over: () => void;
  failed: (err: unknown) => void;
}

/** Whether this browser can record here. */
export const canRecord = () =>
  isSecureContext && typeof MediaRecorder !== "undefined" && TYPES.some((type) => MediaRecorder.isTypeSupported(type));

/**
 * Asks for the microphone and records. The returned bar shows the time, and has buttons to send and to cancel; signal
 * cancels too. The bar is undefined if signal is aborted before the microphone is available.
 */
export async function record(on: Told, signal: AbortSignal): Promise<HTMLElement | undefined> {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const release = () => stream.getTracks().forEach((track) => track.stop());
  if (signal.aborted) return void release();
  try {
    return begin(stream, release, on, signal);
  } catch (err) {
    release();
    throw err;
  }
}

function begin(stream: MediaStream, release: () => void, on: Told, signal: AbortSignal): HTMLElement {
  const type = TYPES.find((type) => MediaRecorder.isTypeSupported(type))!;
  const recorder = new MediaRecorder(stream, { mimeType: type });
  const sound = new AudioContext();
  const ear = sound.createAnalyser();
  sound.createMediaStreamSource(stream).connect(ear);
  const samples = new Uint8Array(ear.fftSize);
  const loud: number[] = [];
  const parts: Blob[] = [];
  const began = performance.now();
  let wanted = false;

  const time = h("span", { class: "record-time", role: "timer" }, c.lasts(0));
  const look = setInterval(() => {
    ear.getByteTimeDomainData(samples);
    loud.push(Math.max(...samples.map((v) => Math.abs(v - 128))));
    const lasts = performance.now() - began;
    time.textContent = c.lasts(Math.floor(lasts / 1000));
    if (lasts > LONGEST) send();
  }, LOOK);
  const stop = () => recorder.state !== "inactive" && recorder.stop();
  const send = () => {
    wanted = true;
    stop();
  };
  signal.addEventListener("abort", stop);
  recorder.ondataavailable = ({ data }) => void parts.push(data);
  recorder.onerror = () => on.failed(new Error(c.voice.failed));
  recorder.onstop = () => {
    clearInterval(look);
    release();
    void sound.close();
    on.over();
    const bare = type.split(";")[0]!;
    if (wanted)
      on.done({
        file: new File(parts, `voice.${bare.split("/")[1]}`, { type: bare }),
        duration: Math.round(performance.now() - began),
        waveform: inParts(loud),
      });
  };
  recorder.start();
  return h(
    "div",
    { class: "recorder", onkeydown: (e: KeyboardEvent) => e.key === "Escape" && stop() },
    h("span", { class: "record-dot", "aria-hidden": "true" }),
    time,
    h("span", { class: "muted", role: "status" }, c.voice.records),
    act(t.words.cancel, "link", async () => void stop(), on.failed),
    act(c.send, "primary", async () => send(), on.failed),
  );
}

// inParts returns the peak of each part, relative to the highest peak.
function inParts(loud: number[]): number[] {
  const most = Math.max(1, ...loud);
  const n = Math.min(PARTS, loud.length);
  return Array.from({ length: n }, (_, i) =>
    Math.round(
      (100 * Math.max(0, ...loud.slice(Math.floor((i * loud.length) / n), Math.floor(((i + 1) * loud.length) / n)))) /
        most,
    ),
  );
}
