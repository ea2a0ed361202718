import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { logIn, refusal, server } from "./page";

const { now, send } = await import("../src/api");
const { authed, Ended, user } = await import("../src/session");

const check = "/v1/checkin";
const renewed = () =>
  Response.json({ access_token: "ada3", refresh_token: "ada4", device: "ada", user: { id: "ada" } });

beforeEach(() => {
  server.requests = [];
  logIn("ada");
});

test("a request is sent again with a renewed token", async () => {
  const answers = [refusal(401, "auth.token_invalid"), renewed(), Response.json({ streak: 1 })];
  server.respond = () => answers.shift()!;
  assert.deepEqual(await (await authed(check)).json(), { streak: 1 });
  assert.deepEqual(server.requests, [check, "/v1/auth/refresh", check]);
});

test("a request of one user is not sent again as the next", async () => {
  server.respond = () => {
    logIn("bob"); // in another tab
    return refusal(401, "auth.token_invalid");
  };
  await assert.rejects(authed(check), Ended);
  assert.deepEqual(server.requests, [check]);
  assert.equal(user()?.id, "bob");
});

test("a late refusal leaves the next user logged in", async () => {
  const answers = [
    () => refusal(401, "auth.token_invalid"),
    renewed,
    () => {
      logIn("bob");
      return refusal(401, "auth.token_invalid");
    },
  ];
  server.respond = () => answers.shift()!();
  await assert.rejects(authed(check), Ended);
  assert.equal(user()?.id, "bob");
});

test("the clock of the page follows the server", async () => {
  const date = new Date(Date.now() + 3 * 3600_000);
  server.respond = () => new Response("", { headers: { Date: date.toUTCString() } });
  await send("/v1/me");
  assert.ok(Math.abs(now() - date.getTime()) < 60_000, `${now()}`);
});
