import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Refused, Unreachable, type Chats, type Message } from "@stoa-dev/client";
import { Draft } from "../src/state/draft";

type Commands = Pick<Chats, "get" | "pending" | "update" | "typing" | "send" | "edit">;

// record returns the commands of a client, which records their calls.
function record(draft = "", fail?: Error) {
  const calls: unknown[][] = [];
  const answer = async (...call: unknown[]): Promise<never> => {
    calls.push(call);
    if (fail) throw fail;
    return undefined as never;
  };
  const commands = {
    get: () => ({ seq: 1, draft }),
    pending: () => [],
    typing: (_: string, on: boolean) => void calls.push(["typing", on]),
    update: (_: string, change: unknown) => answer("update", change),
    send: (_: string, said: unknown, more: unknown) => answer("send", said, more),
    edit: (_: string, seq: number, text: string) => answer("edit", seq, text),
  } as unknown as Commands;
  return { calls, commands };
}

const message = { chat: "u:bob", seq: 7, from: "ada", kind: "text", text: "old text" } as Message;

test("a draft of the server is in the field", () => {
  assert.equal(new Draft("u:bob", record("half a thought").commands).text.value, "half a thought");
});

test("a sent text leaves the field and ends the stored draft", async () => {
  const { calls, commands } = record("Hello");
  const draft = new Draft("u:bob", commands);
  assert.equal(await draft.submit(), true);
  assert.equal(draft.text.value, "");
  assert.deepEqual(calls, [
    ["update", { draft: "" }],
    ["send", { kind: "text", text: "Hello" }, {}],
  ]);
});

test("only a lost update of the stored draft is repeated", async (t) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => mock.timers.reset());
  const ends = ["update", { draft: "" }];
  for (const [err, updates] of [
    [new Unreachable("the line broke"), [ends, ends]],
    [new Refused(404, "chat.unknown", "unknown"), [ends]],
  ] as const) {
    const { calls, commands } = record("Hello");
    const errors: Error[] = [err];
    const update: Commands["update"] = async (...call) => {
      await commands.update(...call);
      const error = errors.pop();
      if (error) throw error;
    };
    await new Draft("u:bob", { ...commands, update }).submit();
    for (let n = 0; n < 2; n++) {
      await Promise.resolve();
      mock.timers.tick(1500);
    }
    assert.deepEqual(
      calls.filter(([what]) => what === "update"),
      updates,
    );
  }
});

test("spaces alone are not sent", async () => {
  const { calls, commands } = record("  ");
  assert.equal(await new Draft("u:bob", commands).submit(), false);
  assert.deepEqual(calls, []);
});

test("a reply names its message", async () => {
  const { calls, commands } = record();
  const draft = new Draft("u:bob", commands);
  draft.begin(message, false);
  draft.input("Yes");
  await draft.submit(["carol"]);
  assert.equal(draft.about.value, undefined);
  assert.deepEqual(calls.at(-1), ["send", { kind: "text", text: "Yes", mentions: ["carol"] }, { reply_to: 7 }]);
});

test("a text that was not sent returns to the field before a newer one", async () => {
  const { commands } = record("", new Error("no storage"));
  const draft = new Draft("u:bob", commands);
  draft.begin(message, false);
  draft.text.value = "first";
  const sending = draft.submit();
  draft.text.value = "second";
  assert.equal(await sending, false);
  assert.equal(draft.text.value, "first\nsecond");
  assert.equal(draft.about.value?.message, message);
  assert.match(String(draft.fault.value), /no storage/);
});

test("an edit keeps the text that was in the field", async () => {
  const { calls, commands } = record("half a thought");
  const draft = new Draft("u:bob", commands);
  draft.begin(message, true);
  assert.equal(draft.text.value, "old text");
  assert.equal(draft.draft, "half a thought");
  draft.input("new text");
  await draft.submit();
  assert.equal(draft.text.value, "half a thought");
  assert.deepEqual(calls, [["edit", 7, "new text"]]);
});

test("a cancelled edit puts the text back", () => {
  const draft = new Draft("u:bob", record("half a thought").commands);
  draft.begin(message, true);
  draft.cancel();
  assert.equal(draft.text.value, "half a thought");
});

test("a refused edit stays in the field", async () => {
  const draft = new Draft("u:bob", record("", new Refused(409, "message.too_old", "too old")).commands);
  draft.begin(message, true);
  draft.text.value = "new text";
  await draft.submit();
  assert.equal(draft.text.value, "new text");
  assert.equal(draft.about.value?.edits, true);
});

test("a closed chat stores the text once as a draft", () => {
  const { calls, commands } = record();
  const draft = new Draft("u:bob", commands);
  draft.input("unfinished");
  draft.close();
  draft.close();
  assert.deepEqual(calls, [
    ["typing", true],
    ["typing", false],
    ["update", { draft: "unfinished" }],
    ["typing", false],
  ]);
});
