import { Agent, type AgentInputItem, OpenAIProvider, Runner } from "@openai/agents";
import { Memory, type StoredDocument } from "agent-memory";
import { MemorySession } from "agent-memory/openai-agents";
import assert from "node:assert/strict";
import { test } from "node:test";
import { response } from "./models.js";
import { openMemory, scripted, serve } from "./support.js";

function said(text: string): AgentInputItem {
  return { type: "message", role: "user", content: text };
}

function bare({ spaceId, content, metadata }: StoredDocument) {
  return { spaceId, content, metadata };
}

function texts(items: readonly AgentInputItem[]): unknown[] {
  return items.map((item) => ("content" in item ? item.content : item));
}

test("items come back in their order, the newest when few are asked for", async (t) => {
  const memory = await openMemory(t);
  const session = new MemorySession(memory, { sessionId: "s" });
  assert.equal(await session.getSessionId(), "s");
  assert.deepEqual(await session.getItems(), []);
  assert.equal(await session.popItem(), undefined);
  await session.addItems([]);
  await session.addItems([said("1"), said("2")]);
  await session.addItems([said("3")]);
  await session.addItems([said("4"), said("5")]);
  assert.deepEqual(texts(await session.getItems()), ["1", "2", "3", "4", "5"]);
  for (const [limit, expected] of [
    [0, []],
    [-1, []],
    [1, ["5"]],
    [3, ["3", "4", "5"]],
    [4, ["2", "3", "4", "5"]],
    [9, ["1", "2", "3", "4", "5"]],
  ] as const) {
    assert.deepEqual(texts(await session.getItems(limit)), expected);
  }
  assert.deepEqual(texts(await new MemorySession(memory, { sessionId: "s" }).getItems()), ["1", "2", "3", "4", "5"]);
  assert.deepEqual(await session.popItem(), said("5"));
  assert.deepEqual(await session.popItem(), said("4"));
  assert.deepEqual(await session.popItem(), said("3"));
  await session.addItems([said("6")]);
  assert.deepEqual(texts(await session.getItems()), ["1", "2", "6"]);
  await session.clearSession();
  assert.deepEqual(await session.getItems(), []);
  await session.addItems([said("7")]);
  assert.deepEqual(texts(await session.getItems()), ["7"]);
});

test("sessions and namespaces are apart", async (t) => {
  const memory = await openMemory(t);
  const sessions = [
    new MemorySession(memory, { sessionId: "a" }),
    new MemorySession(memory, { sessionId: "a-b" }),
    new MemorySession(memory, { sessionId: "b", namespace: ["a"] }),
    new MemorySession(memory, { sessionId: "a/b" }),
    new MemorySession(memory),
  ];
  for (const [index, session] of sessions.entries()) await session.addItems([said(`${index}`)]);
  await sessions[0]?.clearSession();
  for (const [index, session] of sessions.entries()) assert.deepEqual(texts(await session.getItems()), index === 0 ? [] : [`${index}`]);
});

test("items of any kind and size come back as they were", async (t) => {
  const session = new MemorySession(await openMemory(t));
  const items = [
    { type: "function_call", callId: "1", name: "f", arguments: '{"a":1e400}', status: "completed" },
    {
      type: "message",
      role: "user",
      content: [{ type: "input_file", file: "x", providerData: { $bytes: "text", $$bytes: [1], big: 2n ** 64n } }],
    },
    { type: "message", role: "user", content: [{ type: "input_image", image: "💡".repeat(500_000) }] },
    {
      type: "function_call_result",
      callId: "1",
      name: "f",
      status: "completed",
      output: { type: "image", image: { data: Uint8Array.from([0, 255, 10]) } },
    },
  ] as unknown as AgentInputItem[];
  await session.addItems(items);
  await session.addItems([said("small")]);
  assert.deepEqual(await session.getItems(), [...items, said("small")]);
  assert.deepEqual(await session.popItem(), said("small"));
  assert.deepEqual(await session.popItem(), items[3]);
  assert.deepEqual(await session.getItems(), items.slice(0, 3));
});

test("parts go with what they belong to", async (t) => {
  const memory = await openMemory(t);
  const session = new MemorySession(memory, { sessionId: "s" });
  const count = async () => (await memory.documents("openai-sessions").query({ under: "s", limit: 1_000 })).documents.length;
  await session.addItems([said("x".repeat(400_000)), said("y".repeat(400_000))]);
  assert.equal(await count(), 4);
  assert.deepEqual(await session.popItem(), said("y".repeat(400_000)));
  assert.equal(await count(), 3);
  await session.clearSession();
  assert.equal(await count(), 0);
});

test("a batch of any size is put in one request, and once where its answer is lost", async (t) => {
  const { url, token } = await serve(t);
  const asked: string[] = [];
  let losesAnswer = false;
  const memory = Memory.connect(url, {
    token,
    fetch: async (input, init) => {
      asked.push(`${init?.method} ${new URL(String(input)).pathname}`);
      const answer = await fetch(input, init);
      if (!losesAnswer || init?.method !== "POST") return answer;
      losesAnswer = false;
      throw new TypeError("fetch failed");
    },
  });
  const session = new MemorySession(memory, { sessionId: "s" });
  const texts = ["small", "x".repeat(1_000_000)];
  const [look, put] = ["GET /v1/documents/openai-sessions", "POST /v1/documents"];
  for (const text of texts) {
    await session.addItems([said(text)]);
    assert.deepEqual(asked.splice(0), [look, put]);
  }
  for (const text of texts) {
    losesAnswer = true;
    await session.addItems([said(text)]);
    // A second put finds the conflict, and a lookup finds its cause.
    const [, , , settled, ...more] = asked;
    assert.deepEqual(asked.splice(0), [look, put, put, settled]);
    assert.ok(settled?.startsWith(`${look}/`) && more.length === 0);
  }
  assert.deepEqual(await session.getItems(), [...texts, ...texts].map(said));
});

test("racing writers lose nothing, and racing pops give each item once", async (t) => {
  const memory = await openMemory(t);
  const writers = Array.from({ length: 6 }, () => new MemorySession(memory, { sessionId: "s" }));
  await Promise.all(writers.map((session, writer) => session.addItems([said(`${writer}a`), said(`${writer}b`)])));
  const items = texts(await new MemorySession(memory, { sessionId: "s" }).getItems());
  assert.deepEqual([...items].sort(), writers.flatMap((_, writer) => [`${writer}a`, `${writer}b`]).sort());
  for (const [at, item] of items.entries()) if (String(item).endsWith("a")) assert.equal(items[at + 1], String(item).replace("a", "b"));
  const popped = await Promise.all(writers.map((session) => session.popItem()));
  assert.equal(new Set(popped.map((item) => JSON.stringify(item))).size, 6);
  assert.equal((await writers[0]?.getItems())?.length, 6);
});

test("a number that is taken does not end a session", async (t) => {
  const memory = await openMemory(t);
  const session = new MemorySession(memory, { sessionId: "s" });
  for (const text of ["1", "2"]) await session.addItems([said(text)]);
  // A possible result of a race between two writers and a pop: the lower number is the newer one.
  const documents = memory.documents("openai-sessions");
  const [second, first] = (await documents.query({ space: "s" })).documents;
  assert.ok(first !== undefined && second !== undefined);
  await documents.remove({ id: first.id });
  await documents.put(first.id, { ...bare(first), createdAt: second.createdAt + 1 }, { expect: "absent" });
  await session.addItems([said("3")]);
  assert.deepEqual(texts(await session.getItems()), ["2", "1", "3"]);
});

test("a whole session of the official package goes on where it was", async (t) => {
  const memory = await openMemory(t);
  const { url, seen } = await scripted(t, response("1", "A fine cat!"), response("2", "Miso."));
  const modelProvider = new OpenAIProvider({ apiKey: "none", baseURL: url, useResponses: true });
  const agent = new Agent({ name: "Assistant", model: "scripted" });
  const ask = async (text: string) => {
    const runner = new Runner({ modelProvider, tracingDisabled: true });
    return (await runner.run(agent, text, { session: new MemorySession(memory, { sessionId: "ana" }) })).finalOutput;
  };
  assert.equal(await ask("My cat is called Miso"), "A fine cat!");
  assert.equal(await ask("What is my cat called?"), "Miso.");
  const input = JSON.stringify((JSON.parse(seen[1]?.body ?? "{}") as { input: unknown }).input);
  for (const text of ["My cat is called Miso", "A fine cat!", "What is my cat called?"]) assert.ok(input.includes(text), input);
  assert.equal((await new MemorySession(memory, { sessionId: "ana" }).getItems()).length, 4);
});
