import assert from "node:assert/strict";
import { test } from "node:test";
import { matching, mentionAt, mentionedIn } from "../src/state/mentions";

test("a mention begins after a space or at the start", () => {
  assert.equal(mentionAt("@an", 3), "an");
  assert.equal(mentionAt("hello @an", 9), "an");
  assert.equal(mentionAt("hello @", 7), "");
  assert.equal(mentionAt("mail@an", 7), undefined);
  assert.equal(mentionAt("@an na", 6), undefined);
});

test("a selection is no mention", () => {
  assert.equal(mentionAt("@an", 1, 3), undefined);
});

test("candidates match by the beginning of any word of a name", () => {
  const all = [
    { id: "1", name: "Ada Lovelace", note: "" },
    { id: "2", name: "Bob", note: "Lotte" },
    { id: "3", name: "Carol", note: "" },
  ];
  assert.deepEqual(
    matching(all, "LO").map(({ id }) => id),
    ["1", "2"],
  );
  assert.equal(matching(all, "").length, 3);
});

test("only names that are still in the text are mentioned", () => {
  const chosen = new Map([
    ["Ada", "1"],
    ["Bob", "2"],
  ]);
  assert.deepEqual(mentionedIn("@Ada, hello", chosen), ["1"]);
});
