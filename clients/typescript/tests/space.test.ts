import { InvalidInputError, spaceOf } from "agent-memory";
import assert from "node:assert/strict";
import { test } from "node:test";
import { idIn, namesOf } from "../dist/space.js";
import { openMemory } from "./support.js";

test("a space is its segments, encoded", () => {
  assert.equal(spaceOf("app", "user-1", "Zoë/a:b"), "app/user%2D1/Zo%C3%AB%2Fa%3Ab");
  assert.equal(spaceOf("a.b_c~d"), "a.b_c~d");
  assert.equal(spaceOf("!*'() %"), "%21%2A%27%28%29%20%25");
  assert.equal(spaceOf("a", "", ""), "a/%/%");
  for (const wrong of [[], ["\ud800"]]) assert.throws(() => spaceOf(...wrong), InvalidInputError);
});

test("different namespaces have different spaces", () => {
  const names = ["", "a", "-", "/", ":", "%", "%2F", "a/", "/a", "a-", "A", "é", "\u0000", "💡"];
  const lists = names.flatMap((one) => [[one], ...names.map((two) => [one, two]), ...names.map((two) => [one, two, one])]);
  const spaces = lists.map((list) => spaceOf(...list));
  assert.equal(new Set(spaces).size, lists.length);
  assert.deepEqual(spaces.map(namesOf), lists);
  assert.ok(spaces.every((space) => /^[A-Za-z0-9_.~%/]+$/.test(space)));
});

test("what is under a namespace belongs to it", async (t) => {
  const memory = await openMemory(t);
  for (const user of ["ana", "ana-2", "ana/2", "anatole"]) await memory.store(spaceOf("app", user, "thread"), { user });
  const { memories } = await memory.query({ under: spaceOf("app", "ana") });
  assert.deepEqual(
    memories.map(({ trigger }) => trigger),
    [{ user: "ana" }],
  );
});

test("an id fits its limit, and is that of one name in one space", async () => {
  assert.match(await idIn("a/b", "c-d"), /^[0-9a-f]{32}\/c%2Dd$/);
  const names = ["a", "-".repeat(66), "-".repeat(67), "é".repeat(2_000)];
  const ids = await Promise.all(names.flatMap((name) => [idIn("a", name), idIn("b", name)]));
  assert.equal(new Set(ids).size, 8);
  assert.ok(ids.every((id) => id.length <= 256));
});

test("no name is encoded as the hash of another", async () => {
  for (let number = 0; ; number += 1) {
    const long = `${"x".repeat(201)}${number}`;
    const [, hash = ""] = (await idIn("a", long)).split("/");
    assert.match(hash, /^\+[0-9a-f]{64}$/);
    // The name that would be encoded as the hash of some long name, if hashes were written like encoded characters.
    const encoded = hash.replace("+", "%");
    const [short = ""] = /^%[0-7][0-9]/.test(encoded) ? namesOf(encoded) : [];
    if (spaceOf(short) !== encoded) continue;
    assert.notEqual(await idIn("a", short), await idIn("a", long));
    return;
  }
});
