import assert from "node:assert/strict";
import { test } from "node:test";
import { effect } from "@preact/signals-core";
import type { Message } from "@stoa-dev/client";
import { Changes } from "../src/state/changes";
import { Quotes } from "../src/state/quotes";

const message = (seq: number, text = "text") => ({ seq, text }) as Message;
const settled = () => new Promise((done) => setTimeout(done));

test("a loaded message is not requested", () => {
  const quotes = new Quotes(() => assert.fail("a request"));
  assert.equal(quotes.get(1, [message(1)])?.valueOf(), quotes.get(1, []));
});

test("a missing message is requested once, and its readers run again", async () => {
  let requests = 0;
  const quotes = new Quotes(async (seq) => (requests++, seq === 1 ? message(1) : undefined));
  const seen: unknown[] = [];
  effect(() => void seen.push(quotes.get(1, [])));
  effect(() => void seen.push(quotes.get(2, [])));
  await settled();
  assert.equal(requests, 2);
  assert.equal((quotes.get(1, []) as Message).text, "text");
  assert.equal(quotes.get(2, []), "gone");
  assert.deepEqual(seen.slice(0, 2), [undefined, undefined]);
});

test("a changed or deleted message changes its quotes", () => {
  const quotes = new Quotes(async () => undefined);
  quotes.get(1, [message(1)]);
  quotes.update(1, message(1, "edited"));
  assert.equal((quotes.get(1, []) as Message).text, "edited");
  quotes.update(1, undefined);
  assert.equal(quotes.get(1, []), "gone");
});

test("a watcher is called after changes until its signal aborts", () => {
  const changes = new Changes();
  const end = new AbortController();
  let calls = 0;
  changes.watch(() => calls++, end.signal);
  assert.equal(calls, 0);
  changes.publish();
  changes.publish();
  assert.equal(calls, 2);
  end.abort();
  changes.publish();
  assert.equal(calls, 2);
});
