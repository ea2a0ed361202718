// A server for the tests, connections that can be cut, and users with devices.

import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import WebSocket from "ws";
import { Chats, MemoryStorage, refreshing, StoaClient } from "../dist/index.js";

const patience = 60_000; // ms until a wait fails; no test depends on the speed

/** Waits until fn returns a true value, and returns it. */
export async function until(what, fn) {
  for (const end = Date.now() + patience; ;) {
    const got = await fn();
    if (got) return got;
    if (Date.now() > end) throw new Error(`This did not happen: ${typeof what === "function" ? what() : what}.`);
    await sleep(10);
  }
}

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// freePort reserves a port by an open socket, also while the server is down. Other programs that search in this way,
// such as the Go tests, try to open that socket first. The port is below the range that the kernel assigns.
async function freePort() {
  const took = (s, take) =>
    new Promise((done) => {
      s.once("error", () => done(false));
      take(() => done(true));
    });
  for (let tries = 0; tries < 100; tries++) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const ours = createSocket("udp4").unref();
    if (!(await took(ours, (then) => ours.bind(port, "127.0.0.1", then)))) {
      ours.close();
      continue;
    }
    const s = createServer();
    if (await took(s, (then) => s.listen(port, "127.0.0.1", then))) {
      await new Promise((done) => s.close(done));
      return { port, ours };
    }
    ours.close();
  }
  throw new Error("There is no free port.");
}

/** A stoa process with its own data. STOA_BIN is the path of the program. */
export class Server {
  static async start(...flags) {
    const s = new Server();
    s.data = await mkdtemp(join(tmpdir(), "stoa-js-"));
    const { port, ours } = await freePort();
    s.port = port;
    s.portIsOurs = ours;
    s.url = `http://127.0.0.1:${s.port}`;
    s.flags = flags;
    await s.run();
    return s;
  }

  async run() {
    const bin = process.env.STOA_BIN ?? fileURLToPath(new URL("../../../bin/stoa", import.meta.url));
    this.said = "";
    this.process = spawn(bin, [
      "serve",
      "--addr",
      `127.0.0.1:${this.port}`,
      "--data",
      this.data,
      "--dev=true",
      "--log=warn",
      "--accounts-limits-codes-per-ip=1000000",
      ...this.flags,
    ]);
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (text) => (this.said += text));
    this.gone = new Promise((done) => this.process.on("close", done));
    await until(
      () => "the server to start: " + this.said,
      () => {
        if (this.process.exitCode !== null || this.process.signalCode !== null)
          throw new Error("The server has ended: " + this.said);
        return fetch(this.url + "/readyz").then(
          (r) => r.ok,
          () => false,
        );
      },
    );
  }

  async stop(signal = "SIGTERM") {
    this.process.kill(signal);
    await this.gone;
  }

  async end() {
    await this.stop("SIGKILL");
    this.portIsOurs.close();
    await rm(this.data, { recursive: true, force: true });
  }

  async post(path, body) {
    const answer = await fetch(this.url + path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
    return answer.status === 204 ? undefined : answer.json();
  }

  /** Registers a user, with the code from the development outbox. A server on a busy machine may not respond in time. */
  async person(name, password) {
    for (;;)
      try {
        return await this.register(name, password);
      } catch (err) {
        if (!err.message.includes('"code":"unavailable"')) throw err;
      }
  }

  async register(name, password) {
    const email = `${name}${Math.random().toString(36).slice(2)}@example.org`;
    await this.post("/v1/auth/codes", { email, purpose: "register" });
    const code = await until(
      "a code to be mailed",
      async () => (await (await fetch(`${this.url}/dev/mail.json?to=${email}`)).json())[0]?.code,
    );
    return new Person(this, await this.post("/v1/auth/register", { email, code, name, password }));
  }

  /** Two friends, each with a device. Anna has the password. */
  async friends({ password, ...options } = {}) {
    const [anna, ben] = await Promise.all([this.person("Anna", password), this.person("Ben")]);
    const [a, b] = await Promise.all([anna.device(options), ben.device(options)]);
    const { request } = await a.client.call("friends.ask", { body: { user: ben.id } });
    await b.client.call("friends.accept", { path: { request: request.id }, body: {} });
    return [a, b];
  }
}

class Person {
  constructor(server, tokens) {
    this.server = server;
    this.tokens = tokens;
    this.id = tokens.user.id;
    this.chat = "u:" + tokens.user.id; // its name for other users
  }

  /** A device with its own connection and storage, and with current chats. */
  async device(options = {}) {
    const d = new Device(this, options);
    await d.line.open();
    await d.start();
    return d;
  }
}

export class Device {
  constructor(person, { storage = new MemoryStorage(), line, ...options } = {}) {
    this.person = person;
    this.storage = storage;
    this.line = line ?? new Line(person.server.port);
    this.options = options;
    this.heard = []; // all messages, in the order of arrival
    this.states = [];
    this.refreshes = 0;
  }

  async start({ offline = false } = {}) {
    this.client = new StoaClient({
      url: this.line.url(),
      getToken: refreshing({
        url: this.person.server.url,
        load: () => this.person.tokens,
        save: (t) => {
          this.refreshes++;
          this.person.tokens = t;
        },
      }),
      storage: this.storage,
      ...this.options,
      wire: {
        websocket: WebSocket,
        timeout: patience,
        minReconnectDelay: 20,
        maxReconnectDelay: 200,
        ...this.options.wire,
      },
    });
    this.client.on("state", (s) => this.states.push(s.state));
    this.client.on("open", ({ resumed }) => this.states.push(resumed ? "resumed" : "new"));
    this.chats = new Chats(this.client, { user: this.person.id });
    this.synced = 0;
    this.chats.on("synced", () => this.synced++);
    this.chats.on("message", (m) => this.heard.push(m));
    await this.chats.start();
    this.client.connect();
    if (!offline) await until("the chats to be there", () => this.synced > 0);
  }

  /** Closes the page. The storage remains. */
  close() {
    this.chats.stop();
    this.client.disconnect();
    this.line.close();
  }

  /** The seqs of the received messages of a chat. */
  seqs(chat) {
    return this.heard.filter((m) => m.chat === chat).map((m) => m.seq);
  }

  texts(chat) {
    return this.heard.filter((m) => m.chat === chat).map((m) => m.text);
  }
}

/** A device's connection to the server, which can be cut. */
export class Line {
  constructor(port) {
    this.port = port;
    this.conns = new Set();
    this.isCut = false;
    this.isDeaf = false; // no bytes return
    this.noSockets = false; // like a proxy without WebSockets
    this.server = createServer((near) => {
      if (this.isCut) {
        near.destroy();
        return;
      }
      near.once("data", (first) => {
        if (this.noSockets && /^GET \/v1\/socket /.test(first.toString())) {
          near.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
          return;
        }
        const far = connect(this.port, "127.0.0.1");
        for (const conn of [near, far]) {
          this.conns.add(conn);
          conn.on("close", () => this.conns.delete(conn));
        }
        far.on("error", () => near.destroy());
        far.write(first);
        near.pipe(far);
        far.on("data", (some) => this.isDeaf || near.write(some));
        far.on("end", () => near.end());
      });
      near.on("error", () => {});
    });
  }

  open() {
    return new Promise((done) => this.server.listen(0, "127.0.0.1", done));
  }

  url() {
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  cut() {
    this.isCut = true;
    for (const conn of this.conns) conn.destroy();
  }

  mend() {
    this.isCut = false;
  }

  close() {
    this.cut();
    this.server.close();
  }
}

/** A random whole number from 0 to n-1, equal for equal seeds. */
export function dice(seed) {
  return (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
}
