import assert from "node:assert/strict";
import { test } from "node:test";
import { logIn, server } from "./page";

const { People } = await import("../src/people");

test("an event is newer than the response to an earlier request", async () => {
  logIn("ada");
  let respond = (_: Response) => {};
  server.respond = () => new Promise((done) => (respond = done));
  const people = new People((err) => assert.fail(String(err)));
  const loading = people.catchUp();
  people.event({ type: "friend.unread", time: "", data: { unread: 1, version: 2 } });
  respond(Response.json({ unread: 0 }));
  await loading;
  assert.equal(people.unread, 1);
  people.event({ type: "friend.unread", time: "", data: { unread: 0, version: 1 } });
  assert.equal(people.unread, 1, "an older event");
});
