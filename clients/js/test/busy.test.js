import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Refused, uploadFile, Unreachable } from "../dist/index.js";

const json = (body, headers = {}) => new Response(JSON.stringify(body), { headers });

// The node of the first try is dead. The server returns busy until its claim expires.
async function upload(lapses) {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  let tries = 0;
  const client = {
    async request(path, init) {
      if (init.method === "HEAD") return json(null, { "Upload-Offset": "0" });
      if (path !== "/v1/transfers") return json({ id: "t", status: "done" });
      if (tries++ === 0) throw new Unreachable("The connection broke.");
      if (Date.now() < lapses) throw new Refused(409, "idempotency.busy", "", 1);
      return json({ id: "t", status: "transferring" });
    },
  };
  let outcome;
  uploadFile(client, new Blob([]), { name: "empty" }).then(
    (id) => (outcome = id),
    (err) => (outcome = err),
  );
  for (let i = 0; i < 600 && outcome === undefined; i++) {
    for (let n = 0; n < 20; n++) await Promise.resolve();
    mock.timers.tick(100);
  }
  const took = Date.now();
  mock.timers.reset();
  return { outcome, took, tries };
}

test("a call is repeated until a dead node's claim lapses", async () => {
  const { outcome, tries } = await upload(30_000);
  assert.equal(outcome, "t");
  assert.ok(tries < 40, `${tries} tries`);
});

test("a call that stays busy ends", async () => {
  const { outcome, took } = await upload(Infinity);
  assert.equal(outcome?.code, "idempotency.busy");
  assert.ok(took >= 35_000, `it took ${took} ms`);
});
