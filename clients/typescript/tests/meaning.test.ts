import { ConflictError, Memory, MemoryError } from "agent-memory";
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { type Answer, cutOff, json, openMemory, problem, scripted, temporaryFolder, until } from "./support.js";

const ID = "01a1fed6-0358-76ab-aa80-f9ff382e7513";
const MODEL = { name: "mine", width: 3, precision: "exact" } as const;

test("records are found by vectors of the caller's own", async (t) => {
  const memory = await openMemory(t);
  assert.deepEqual(await memory.setVectorModel(MODEL), MODEL);
  assert.deepEqual(await memory.vectorModel(), MODEL);
  const kitten = await memory.store("ana-m1", { text: "The kitten sleeps" }, { vector: new Float32Array([1, 0, 0]) });
  const [rain, plain] = await memory.storeMany([
    { spaceId: "ana-m2", trigger: { text: "It rains" }, vector: [0, 1, 0] },
    { spaceId: "ana-m3", trigger: { text: "Lunch is late" } },
  ]);
  const ids = async (vector: number[], words = "") => {
    const { hits, unembedded } = await memory.recall(words, { under: "ana", vector });
    return [hits.map((hit) => hit.memory?.id), unembedded];
  };
  assert.deepEqual(await ids([0.9, 0.1, 0]), [[kitten, rain], 1]);
  assert.deepEqual(await ids([0.1, 0.9, 0]), [[rain, kitten], 1]);
  // Words count, too, if there are any.
  const lunch = await memory.recall("lunch", { under: ["ana"], vector: [1, 0, 0], after: new Date(0), limit: 3, explain: true });
  assert.deepEqual(new Set(lunch.hits.map((hit) => hit.memory?.id)), new Set([kitten, rain, plain]));
  assert.ok((lunch.hits.find((hit) => hit.memory?.id === kitten)?.parts.meaning ?? 0) > 0);
  assert.ok((lunch.explained?.greatestCosine ?? 0) > 0);

  const late = { id: plain ?? "", revision: 1, vector: [0, 0, 1] };
  assert.deepEqual(await memory.embed([late, { ...late, revision: 2 }, { ...late, id: ID }], { model: "mine" }), [true, false, false]);
  assert.deepEqual(await ids([0, 0.1, 0.9]), [[plain, rain, kitten], 0]);

  await assert.rejects(memory.embed([late], { model: "other" }), MemoryError);
  await assert.rejects(memory.store("ana", 1, { vector: [1, 0] }), { kind: "InvalidInput", message: /2 numbers.*has 3/ });
  await assert.rejects(memory.recall("", { under: "ana", vector: [] }), { kind: "InvalidInput" });
  await assert.rejects(memory.recall("x", { under: "ana", meaning: true }), { kind: "InvalidInput", message: /no embedding model/ });
  assert.equal((await memory.recall("kitten", { under: "ana", meaning: false })).unembedded, undefined);
});

test("documents are found by vectors of the caller's own", async (t) => {
  const memory = await openMemory(t);
  const notes = memory.documents("notes");
  // Each in a container of its own, since neighbours of a document count, too.
  const content = (room: string) => ({ spaceId: `ana-${room}-m1`, content: "The kitten sleeps" });
  await assert.rejects(notes.put("a", { ...content("a"), vector: [1, 0, 0] }), ConflictError);
  await memory.setVectorModel(MODEL);
  await notes.put("a", { ...content("a"), vector: [1, 0, 0] });
  // The bytes of an exact vector: a form, and numbers with the lowest byte first.
  const added = await notes.add({ ...content("b"), vector: base64(2, 0, 1, 0) });
  await memory.putDocuments([{ ...content("c"), collection: "notes", id: "c", vector: [0, 0, 1] }]);
  const ids = async (vector: number[]) => {
    const { hits } = await memory.recall("", { under: "ana", collection: "notes", vector, limit: 1 });
    return hits.map((hit) => hit.document?.id);
  };
  assert.deepEqual([await ids([1, 0, 0]), await ids([0, 1, 0]), await ids([0, 0, 1])], [["a"], [added.id], ["c"]]);
  const moved = { collection: "notes", id: "a", revision: 1, vector: [0, 0.1, 1] };
  assert.deepEqual(await memory.embed([moved], { model: "mine" }), [true]);
  assert.deepEqual(await ids([0, 0.1, 1]), ["a"]);
});

/** The base64 of a vector as the server stores it. */
function base64(form: number, ...numbers: number[]): string {
  return Buffer.concat([Buffer.from([form]), Buffer.from(new Float32Array(numbers).buffer)]).toString("base64");
}

/** The answer of an endpoint of embeddings for which all animals have the same vector. */
const embeddings: Answer = ({ body }, response) => {
  const { input } = JSON.parse(body) as { input: string[] };
  const data = input.map((text, index) => ({ index, embedding: /kitten|animal/.test(text) ? [1, 0] : [0, 1] }));
  json({ data })({} as never, response);
};

test("a server with a model finds what is meant", async (t) => {
  const { url, seen } = await scripted(t, embeddings);
  const file = join(await temporaryFolder(t), "memory.db");
  const model = { embedder: `${url}/v1`, embedderModel: "small", embedderWidth: 2 };
  await using memory = await Memory.open(file, model);
  await memory.storeMany([
    { spaceId: "ana-m1", trigger: { text: "The kitten sleeps" } },
    { spaceId: "ana-m2", trigger: { text: "It rains" } },
  ]);
  const ask = (meaning?: boolean) =>
    memory.recall("Which animal lives with Ana?", { under: "ana", limit: 1, ...(meaning === undefined ? {} : { meaning }) });
  await until(async () => (await ask()).unembedded === 0);
  const [hit] = (await ask(true)).hits;
  assert.deepEqual(hit?.memory?.trigger, { text: "The kitten sleeps" });
  assert.ok((hit?.parts.meaning ?? 0) > 0);
  assert.deepEqual([(await ask(false)).hits, (await ask(false)).unembedded], [[], undefined]);
  assert.deepEqual(await memory.vectorModel(), { name: "small", width: 2, precision: "compact" });
  assert.ok(seen.every((request) => request.url === "/v1/embeddings" && (JSON.parse(request.body) as { model: string }).model === "small"));
});

test("a model that can't be one is told by the server's own words", async (t) => {
  const file = join(await temporaryFolder(t), "memory.db");
  await assert.rejects(Memory.open(file, { embedder: "http://127.0.0.1:1/v1", embedderModel: "small" }), {
    kind: "Unavailable",
    message: /--embedder-width/,
  });
});

test("a question with a vector is a read, and a model is set once", async (t) => {
  const answer = { hits: [], examined: 0, complete: true, unembedded: 0 };
  const { url, seen } = await scripted(t, cutOff, json(answer), cutOff);
  const memory = Memory.connect(url);
  assert.deepEqual(await memory.recall("", { under: "ana", vector: [1], before: new Date(5) }), answer);
  assert.deepEqual(JSON.parse(seen[1]?.body ?? ""), { text: "", under: ["ana"], vector: [1], before: 5 });
  await assert.rejects(Memory.connect(url, { retries: 0 }).recall("", { under: "ana", vector: [1] }), { outcome: "NotDone" });
  await assert.rejects(memory.setVectorModel(MODEL), { kind: "Unavailable", outcome: "Unknown" });
  assert.equal(seen.length, 4);
});

test("a database without a model has none", async (t) => {
  const { url } = await scripted(t, problem(404, { error: "NotFound" }));
  assert.equal(await Memory.connect(url).vectorModel(), undefined);
  assert.equal(await (await openMemory(t)).vectorModel(), undefined);
});

test("an added document whose answer was lost does not vouch for its vector", async (t) => {
  const { url, seen } = await scripted(t, cutOff, problem(409, { error: "Conflict" }));
  await assert.rejects(Memory.connect(url).documents("notes").add({ spaceId: "s", content: "", vector: [1] }), {
    kind: "Conflict",
    outcome: "Unknown",
  });
  assert.deepEqual(
    seen.map(({ method }) => method),
    ["PUT", "PUT"],
  );
});
