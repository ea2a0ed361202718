import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Presences } from "../dist/index.js";

// A client with the test's responses and events.
class Line {
  state = "online";
  calls = [];
  answer = { users: [] };
  handlers = {};
  on(name, fn) {
    this.handlers[name] = fn;
  }
  async call(operation, input) {
    this.calls.push(input ? `${operation} ${input.query.users}` : operation);
    return this.answer;
  }
  async send(name, data) {
    this.handlers[name](data);
    await settled();
  }
}

const settled = async () => {
  for (let i = 0; i < 10; i++) await Promise.resolve();
};

const online = (...users) => users.map((user) => ({ user, status: "online" }));

test("a partial answer makes no friend look off line", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const line = new Line();
  const presences = new Presences(line);
  line.answer = { users: online("bob", "eve") };
  await line.send("open", {});
  assert.equal(presences.status("eve"), "online");

  line.answer = { users: online("bob"), partial: true };
  await line.send("open", {});
  assert.equal(presences.status("eve"), "online");
  line.answer = { users: [{ user: "dan", status: "offline" }], partial: true };
  await presences.ask("dan");

  line.answer = { users: online("bob") };
  line.calls = [];
  await line.send("presence.complete", { user: "ann" });
  mock.timers.tick(2000);
  await settled();
  assert.deepEqual(line.calls, ["presence.friends", "presence.get dan"]);
  assert.equal(presences.status("eve"), "offline");

  line.calls = [];
  await line.send("presence.complete", { user: "ann" });
  mock.timers.tick(60_000);
  await settled();
  assert.deepEqual(line.calls, [], "nothing is in doubt any longer");
  mock.timers.reset();
});

test("a partial answer is asked for again without an event", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const line = new Line();
  const presences = new Presences(line);
  line.answer = { users: [], partial: true };
  await line.send("open", {});
  line.answer = { users: online("bob") };
  mock.timers.tick(30_000);
  await settled();
  assert.equal(presences.status("bob"), "online");
  mock.timers.reset();
});

test("an older presence does not replace a newer one", async () => {
  const line = new Line();
  const presences = new Presences(line);
  const bob = (status, version) => ({ user: "bob", status, version });
  line.answer = { users: [bob("online", 5)] };
  await line.send("open", {});
  await line.send("presence.changed", bob("offline", 4));
  assert.equal(presences.status("bob"), "online", "after an event that is older than the list");

  await line.send("presence.changed", bob("busy", 6));
  await line.send("presence.changed", bob("away", 5));
  assert.equal(presences.status("bob"), "busy", "after an older event");
  await line.send("open", {});
  assert.equal(presences.status("bob"), "busy", "after an older list");

  line.answer = { users: [{ user: "bob", status: "offline" }] }; // the caller may not see bob
  await presences.ask("bob");
  assert.equal(presences.status("bob"), "offline");
  await line.send("presence.changed", bob("online", 5));
  assert.equal(presences.status("bob"), "offline", "after an event that is older than a presence without a version");
});
