import { ConflictError, ErasedError, InvalidInputError, LimitExceededError, MemoryError, NotFoundError, TooLargeError } from "agent-memory";
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { openMemory } from "./support.js";

const MISSING = "01a1fed6-0358-76ab-aa80-f9ff382e7513";

test("a memory is stored, read and changed", async (t) => {
  const memory = await openMemory(t);
  const createdAt = new Date("2026-03-14T09:26:53Z");
  const trigger = { text: "I adopted a cat", chip: 9007199254740993n };
  const id = await memory.store("ana-m1", trigger, { createdAt, metadata: { topic: "pets" }, status: "observed", idempotencyKey: "m1" });
  assert.equal(await memory.store("ana-m1", trigger, { idempotencyKey: "m1" }), id);
  const stored = await memory.get(id);
  assert.deepEqual(stored, {
    id,
    spaceId: "ana-m1",
    trigger,
    createdAt: createdAt.getTime(),
    metadata: { topic: "pets" },
    status: "observed",
    revision: 1,
    idempotencyKey: "m1",
  });

  const updated = await memory.update(id, {
    context: { set: [1] },
    metadata: { merge: { topic: null, age: 3 } },
    status: "completed",
    ifRevision: 1,
  });
  assert.equal(updated.revision, 2);
  const changed = await memory.get(id);
  assert.deepEqual([changed?.context, changed?.metadata, changed?.status], [[1], { age: 3 }, "completed"]);
  await memory.update(id, { context: "clear", metadata: { replace: {} } });
  assert.deepEqual([(await memory.get(id))?.context, (await memory.get(id))?.metadata], [undefined, {}]);

  await assert.rejects(memory.update(id, { status: "failed", ifRevision: 1 }), ConflictError);
  await assert.rejects(memory.store("ana-m2", trigger, { idempotencyKey: "m1" }), ConflictError);
  await assert.rejects(memory.update(MISSING, {}), NotFoundError);
  assert.equal(await memory.get(MISSING), undefined);
});

test("all conditions of a query arrive", async (t) => {
  const memory = await openMemory(t);
  const ids = await memory.storeMany([
    { spaceId: "guild1-ana", trigger: { text: "I adopted a cat" }, createdAt: 1_000, metadata: { topic: "pets" }, status: "completed" },
    { spaceId: "guild1-bob", trigger: { text: "Dogs are better" }, createdAt: 2_000, metadata: { topic: "pets" } },
    { spaceId: "guild12-dora", trigger: { text: "It rains" }, createdAt: 3_000 },
  ]);
  const [cat = "", dog = "", rain = ""] = ids;
  for (const [query, found] of [
    [{ all: true }, [rain, dog, cat]],
    [{ all: true, order: "oldest" }, [cat, dog, rain]],
    [{ space: ["guild1-ana", "guild12-dora"] }, [rain, cat]],
    [{ under: "guild1" }, [dog, cat]],
    [{ prefix: "guild1" }, [rain, dog, cat]],
    [{ glob: "guild?-*" }, [dog, cat]],
    [{ regex: "^guild12" }, [rain]],
    [{ all: true, after: 1_000, before: new Date(3_000) }, [dog]],
    [{ all: true, status: ["completed", "failed"] }, [cat]],
    [{ all: true, exclude: [cat, dog] }, [rain]],
    [{ all: true, where: "metadata.topic = 'pets' AND text ILIKE '%CAT%'" }, [cat]],
    [{ all: true, text: "dogs rain" }, [dog]],
    [{ all: true, text: "dogs rains" }, [rain, dog]],
    [{ all: true, limit: 1, offset: 1 }, [dog]],
    [{ all: true, limit: 0 }, []],
  ] as const) {
    const page = await memory.query(query);
    assert.deepEqual(
      page.memories.map(({ id }) => id),
      found,
      JSON.stringify(query),
    );
    assert.deepEqual(page.unreadable, []);
  }
  const walked = [];
  for await (const page of memory.pages({ all: true, limit: 1, offset: 1 })) walked.push(page.memories.map(({ id }) => id));
  assert.deepEqual(walked.flat(), [dog, cat]);
  assert.ok(walked.length >= 2);

  for (const mistake of [
    {},
    { all: true, limit: 1_001 },
    { all: true, where: "nothing" },
    { all: true, cursor: "forged" },
    { regex: "(" },
    { all: true, status: [] },
  ] as const) {
    await assert.rejects(memory.query(mistake), { kind: "InvalidInput", outcome: "NotDone" }, JSON.stringify(mistake));
  }
  await assert.rejects(memory.query({ all: true, colour: "red" } as { all: true }), { kind: "InvalidInput" });
});

test("a batch is stored as a whole or not at all", async (t) => {
  const memory = await openMemory(t);
  await assert.rejects(
    memory.storeMany([
      { spaceId: "a", trigger: 1 },
      { spaceId: "", trigger: 1 },
    ]),
    MemoryError,
  );
  assert.deepEqual((await memory.query({ all: true })).memories, []);
  assert.deepEqual(await memory.storeMany([]), []);
  const many = Array.from({ length: 10_001 }, () => ({ spaceId: "a", trigger: 1 }));
  await assert.rejects(memory.storeMany(many), TooLargeError);
});

test("documents are put where what is expected is in place", async (t) => {
  const notes = (await openMemory(t)).documents("notes");
  const id = "a/b ü?%&=#";
  const first = await notes.put(id, { spaceId: "ana", content: "Ana has a cat", metadata: { a: 1 }, createdAt: 5 }, { expect: "absent" });
  assert.deepEqual([first.id, first.revision, first.createdAt], [id, 1, 5]);
  await assert.rejects(notes.put(id, { spaceId: "ana", content: "" }, { expect: "absent" }), ConflictError);
  const second = await notes.put(id, { spaceId: "ana", content: "Ana has two cats" }, { expect: 1 });
  assert.equal(second.revision, 2);
  await assert.rejects(notes.put(id, { spaceId: "ana", content: "" }, { expect: 1 }), {
    kind: "Conflict",
    status: 412,
    outcome: "NotDone",
  });
  assert.equal((await notes.put(id, { spaceId: "ana", content: "Ana has three cats" })).revision, 3);
  assert.equal((await notes.get(id))?.content, "Ana has three cats");
  assert.equal(await notes.get("b"), undefined);
});

test("many documents are put all or none", async (t) => {
  const memory = await openMemory(t);
  const one = { collection: "notes", id: "a", spaceId: "ana", content: "one", createdAt: new Date(5), expect: "absent" } as const;
  const two = { collection: "other", id: "a", spaceId: "ana", content: "two" };
  const put = await memory.putDocuments([one, two, { collection: "notes", spaceId: "ana", content: "three" }]);
  assert.deepEqual(put.slice(0, 2), [
    { id: "a", collection: "notes", createdAt: 5, revision: 1 },
    { id: "a", collection: "other", createdAt: put[1]?.createdAt, revision: 1 },
  ]);
  assert.match(put[2]?.id ?? "", /^[0-9a-f-]{36}$/);
  await assert.rejects(memory.putDocuments([{ ...two, content: "changed" }, one]), { kind: "Conflict", outcome: "NotDone" });
  assert.equal((await memory.documents("other").get("a"))?.content, "two");
  assert.equal((await memory.putDocuments([{ ...one, content: "four", expect: 1 }]))[0]?.revision, 2);
  assert.deepEqual(await memory.putDocuments([]), []);
});

test("documents are found, and removed within a limit", async (t) => {
  const memory = await openMemory(t);
  const notes = memory.documents("notes");
  const added = [];
  for (const content of ["one cat", "two cats", "a dog"]) added.push((await notes.add({ spaceId: "ana-pets", content })).id);
  await notes.add({ spaceId: "bob", content: "one cat" });
  assert.deepEqual(await memory.collections(), ["notes"]);
  const walked = [];
  for await (const page of notes.pages({ under: "ana", order: "oldest", limit: 2 })) walked.push(...page.documents.map(({ id }) => id));
  assert.deepEqual([...walked].sort(), [...added].sort());

  await assert.rejects(notes.remove({ under: "ana" }, { max: 2 }), LimitExceededError);
  assert.deepEqual(await notes.remove({ under: "ana", text: "dog" }, { dryRun: true }), [added[2]]);
  assert.deepEqual(await notes.remove({ under: "ana", where: "content ILIKE '%cat%'" }), added.slice(0, 2).sort());
  assert.deepEqual(await notes.remove({ id: [added[0] ?? "", added[2] ?? ""] }), [added[2]]);
  assert.deepEqual(await notes.remove({ id: [], all: true, text: "cat" }), []);
  assert.deepEqual(
    (await notes.query({ all: true })).documents.map(({ spaceId }) => spaceId),
    ["bob"],
  );
  await assert.rejects(notes.remove({ all: true }), { kind: "InvalidInput" });
});

test("a question is answered, with what is asked for beside the hits", async (t) => {
  const memory = await openMemory(t);
  for (const [number, text] of ["Hello there", "I adopted a cat", "What is it called?", "Miso"].entries()) {
    await memory.store(`ana-room-m${number}`, { speaker: "Ana", text }, { createdAt: number * 1_000 });
  }
  await memory.store("bob-room-m1", { text: "Who adopted a cat?" });
  const recalled = await memory.recall("Who adopted a cat?", { under: "ana", limit: 1, neighbours: 1, explain: true, language: "english" });
  assert.deepEqual([recalled.examined, recalled.complete, recalled.hits.length], [4, true, 1]);
  const [hit] = recalled.hits;
  assert.deepEqual(hit?.memory?.trigger, { speaker: "Ana", text: "I adopted a cat" });
  assert.deepEqual([hit?.before.length, hit?.after.length], [1, 1]);
  assert.deepEqual(hit?.terms?.map(({ term }) => term).sort(), ["adopt", "cat"]);
  assert.ok(Math.abs((hit?.score ?? 0) - Object.values(hit?.parts ?? {}).reduce((sum, part) => sum + part, 0)) < 1e-9);
  assert.equal(recalled.explained?.records, 4);

  await memory.documents("notes").add({ spaceId: "ana", content: "The cat is called Miso" });
  const answer = await memory.recall("What is the cat called?", { all: true, collection: "notes" });
  assert.deepEqual([answer.hits[0]?.document?.content, answer.hits[0]?.before], ["The cat is called Miso", []]);
  await assert.rejects(memory.recall("x", { all: true, language: "klingon" }), { kind: "InvalidInput" });
  await assert.rejects(memory.recall("x"), { kind: "InvalidInput", message: /name its spaces/ });
});

test("spaces are listed level by level", async (t) => {
  const memory = await openMemory(t);
  const spaces = ["ana-a-x", "ana-a-y", "ana-b", "bob"];
  await memory.storeMany(spaces.map((spaceId, index) => ({ spaceId, trigger: {}, createdAt: index })));
  await memory.documents("notes").add({ spaceId: "ana-c", content: "" });
  const ids = (levels: Awaited<ReturnType<typeof memory.spaces>>) => levels.map((level) => level.spaces.map(({ id }) => id));
  assert.deepEqual(await memory.spaces({ under: "ana" }), [
    {
      under: "ana",
      spaces: [
        { id: "ana-a", count: 2, more: false, newest: 1 },
        { id: "ana-b", count: 1, more: false, newest: 2 },
      ],
    },
  ]);
  assert.deepEqual(ids(await memory.spaces({ depth: 2 })), [["ana", "bob"], ["ana-a", "ana-b"]]);
  const [first] = await memory.spaces({ limit: 1 });
  assert.deepEqual(ids(await memory.spaces({ limit: 1, cursor: first?.next ?? "" })), [["bob"]]);
  assert.deepEqual(ids(await memory.spaces({ under: "ana", collection: "notes" })), [["ana-c"]]);
  await assert.rejects(memory.spaces({ depth: 9 }), { kind: "InvalidInput" });
});

test("what is erased is gone for good", async (t) => {
  const memory = await openMemory(t);
  const trigger = { text: "I adopted a cat" };
  const id = await memory.store("ana-m1", trigger, { idempotencyKey: "m1" });
  const rest = await memory.storeMany([{ spaceId: "ana-m2", trigger }, { spaceId: "ana-m3", trigger }, { spaceId: "anax", trigger }]);
  await memory.documents("notes").put("n", { spaceId: "ana-n", content: "Ana has a cat" });
  assert.deepEqual(await memory.erase({ ids: [id, MISSING], reason: "a test" }), { records: [{ id }], isComplete: true });
  await assert.rejects(memory.get(id), ErasedError);
  await assert.rejects(memory.store("ana-m1", trigger, { idempotencyKey: "m1" }), ErasedError);
  const erased: string[] = [];
  for (let isComplete = false; !isComplete;) {
    const slice = await memory.erase({ query: { under: "ana", before: new Date() }, reason: "a test", limit: 1 });
    erased.push(...slice.records.map((record) => record.id));
    isComplete = slice.isComplete;
  }
  assert.deepEqual(erased.sort(), rest.slice(0, 2).sort());
  const documents = await memory.erase({ query: { under: ["ana"] }, documents: true, collections: ["notes"], reason: "a test" });
  assert.deepEqual(documents, { records: [{ collection: "notes", id: "n" }], isComplete: true });
  assert.deepEqual((await memory.query({ all: true })).memories.map((one) => one.spaceId), ["anax"]);
  await assert.rejects(memory.erase({ query: { all: true }, reason: "a test" }), InvalidInputError);
  const refused = { name: "InvalidInputError", message: /is empty: name one/ };
  await assert.rejects(memory.erase({ ids: [], reason: "a test" }), refused);
  await assert.rejects(memory.erase({ query: { under: [] }, reason: "a test" }), refused);
  await assert.rejects(memory.erase({ query: { under: "ana", status: [] }, reason: "a test" }), refused);
  const none = { query: { under: "ana" }, documents: true, collections: [], reason: "a test" };
  await assert.rejects(memory.erase(none), refused);
});

test("what expires is gone", async (t) => {
  const memory = await openMemory(t);
  const [far, notes] = [8_640_000_000_000, memory.documents("notes")];
  const id = await memory.store("ana-m1", { text: "I adopted a cat" }, { expiresAt: far });
  const [second = ""] = await memory.storeMany([{ spaceId: "ana-m2", trigger: 1, expiresIn: 60_000 }]);
  const expiry = async (id: string) => (await memory.get(id))?.expiresAt;
  assert.equal(await expiry(id), far);
  assert.ok(((await expiry(second)) ?? 0) > Date.now());
  await memory.update(id, { expiresAt: "clear" });
  assert.equal(await expiry(id), undefined);
  await memory.update(id, { expiresAt: { set: new Date(far - 1) } });
  await memory.update(id, { status: "running" });
  assert.equal(await expiry(id), far - 1);
  assert.equal((await notes.put("n", { spaceId: "ana", content: "one", expiresAt: new Date(far) })).expiresAt, far);
  // A put without one clears it.
  assert.equal((await notes.put("n", { spaceId: "ana", content: "one" })).expiresAt, undefined);
  const [put] = await memory.putDocuments([{ collection: "notes", id: "n", spaceId: "ana", content: "two", expiresIn: 1_000 }]);
  assert.ok((put?.expiresAt ?? 0) > 0);
  const refused = { name: "InvalidInputError", message: /can't be combined/ };
  await assert.rejects(memory.store("ana", 1, { expiresIn: 1, expiresAt: far }), refused);
  await assert.rejects(memory.update(id, { expiresIn: 1, expiresAt: "clear" }), refused);
  await assert.rejects(memory.store("ana", 1, { expiresAt: 1 }), InvalidInputError);

  await memory.update(id, { expiresIn: 1_000 });
  const isThere = async () => {
    try {
      return (await memory.get(id)) !== undefined;
    } catch (error) {
      assert.ok(error instanceof ErasedError, String(error));
      return false;
    }
  };
  while ((await isThere()) || (await notes.get("n")) !== undefined) await setTimeout(10);
  assert.deepEqual((await memory.query({ all: true })).memories.map((one) => one.id), [second]);
});

test("health tells the engine", async (t) => {
  const health = await (await openMemory(t)).health();
  assert.ok((process.env["AGENT_MEMORY_TEST_URL"] ?? "sqlite").startsWith(health.engine), health.engine);
  assert.ok(health.schemaVersion >= 1 && health.durability !== "");
});

test("versions are shown, and what was there at a time", async (t) => {
  const memory = await openMemory(t);
  const id = await memory.store("ana-m1", { text: "I adopted a cat" });
  await memory.update(id, { context: { set: [1] } });
  await memory.update(id, { status: "completed" });
  const page = await memory.history(id, { limit: 2 });
  assert.deepEqual(page.versions.map((version) => [version.revision, version.memory?.status]), [[3, "completed"], [2, "pending"]]);
  const { versions, next } = await memory.history(id, { cursor: page.next ?? "" });
  assert.deepEqual([versions.length, versions[0]?.memory?.context, next], [1, undefined, undefined]);
  const now = page.versions[0]?.committedAt ?? 0;
  assert.equal((await memory.get(id, { asOf: new Date(now) }))?.revision, 3);
  await assert.rejects(memory.get(id, { asOf: 1 }), InvalidInputError);
  await assert.rejects(memory.history(MISSING), NotFoundError);

  const notes = memory.documents("notes");
  await notes.put("n", { spaceId: "ana", content: "one" });
  await notes.put("n", { spaceId: "ana", content: "two" });
  assert.deepEqual((await notes.history("n")).versions.map((version) => version.document?.content), ["two", "one"]);
  await notes.remove({ id: "n" });
  await assert.rejects(notes.history("n"), NotFoundError);
  const all = (await notes.history("n", { removed: true })).versions;
  assert.deepEqual(all.map((version) => version.document?.content), [undefined, "two", "one"]);
});
