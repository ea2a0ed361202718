// Recording of a voice message.

import { signal, type ReadonlySignal } from "@preact/signals-core";
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

/** A recording that runs. */
export interface Recorder {
  elapsed: ReadonlySignal<number>; // whole seconds
  send: () => void;
  cancel: () => void;
}

interface Listener {
  done: (r: Recording) => void;
  over: () => void;
  failed: (err: unknown) => void;
}

/** Whether this browser can record here. */
export const canRecord = () =>
  isSecureContext && typeof MediaRecorder !== "undefined" && TYPES.some((type) => MediaRecorder.isTypeSupported(type));

/**
 * Asks for the microphone and records; signal cancels the recording. It returns undefined if signal is aborted before the
 * microphone is available.
 */
export async function record(on: Listener, signal: AbortSignal): Promise<Recorder | undefined> {
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

function begin(stream: MediaStream, release: () => void, on: Listener, abort: AbortSignal): Recorder {
  const type = TYPES.find((type) => MediaRecorder.isTypeSupported(type))!;
  const recorder = new MediaRecorder(stream, { mimeType: type });
  const sound = new AudioContext();
  const analyser = sound.createAnalyser();
  sound.createMediaStreamSource(stream).connect(analyser);
  const samples = new Uint8Array(analyser.fftSize);
  const loud: number[] = [];
  const parts: Blob[] = [];
  const began = performance.now();
  const elapsed = signal(0);
  let wanted = false;

  const meter = setInterval(() => {
    analyser.getByteTimeDomainData(samples);
    loud.push(Math.max(...samples.map((v) => Math.abs(v - 128))));
    const lasts = performance.now() - began;
    elapsed.value = Math.floor(lasts / 1000);
    if (lasts > LONGEST) send();
  }, LOOK);
  const stop = () => recorder.state !== "inactive" && recorder.stop();
  const send = () => {
    wanted = true;
    stop();
  };
  abort.addEventListener("abort", stop);
  recorder.ondataavailable = ({ data }) => void parts.push(data);
  recorder.onerror = () => on.failed(new Error(c.voice.failed));
  recorder.onstop = () => {
    clearInterval(meter);
    release();
    void sound.close();
    on.over();
    if (!wanted) return;
    const bare = type.split(";")[0]!;
    const file = new File(parts, `voice.${bare.split("/")[1]}`, { type: bare });
    on.done({ file, duration: Math.round(performance.now() - began), waveform: inParts(loud) });
  };
  recorder.start();
  return { elapsed, send, cancel: stop };
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
