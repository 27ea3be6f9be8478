import { Memory } from "agent-memory";
import { MaiarMemoryProvider, type MaiarRuntime, type MaiarTask } from "agent-memory/maiar";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { openMemory } from "./support.js";

// The interface as MAIAR's documentation has it, to which the provider is assigned.

interface MaiarMemory {
  id: string;
  spaceId: string;
  trigger: string;
  context?: string;
  createdAt: number;
  updatedAt?: number;
  metadata?: Record<string, unknown>;
}

interface QueryMemoryOptions {
  spaceId?: string;
  relatedSpaces?: { prefix?: string; pattern?: string };
  after?: number;
  before?: number;
  limit?: number;
  offset?: number;
}

interface Plugin {
  readonly id: string;
  init(): Promise<void> | void;
  shutdown(): Promise<void> | void;
  executors: readonly { name: string; fn: (task: MaiarTask) => Promise<{ success: boolean; error?: string; data?: unknown }> }[];
}

interface MemoryProvider {
  init(): Promise<void> | void;
  checkHealth(): Promise<void> | void;
  shutdown(): Promise<void> | void;
  getPlugin(): Plugin;
  storeMemory(memory: Omit<MaiarMemory, "id">): Promise<string>;
  updateMemory(id: string, patch: Partial<MaiarMemory>): Promise<void>;
  queryMemory(options: QueryMemoryOptions): Promise<MaiarMemory[]>;
}

async function open(t: TestContext): Promise<{ provider: MemoryProvider; memory: Memory }> {
  const memory = await openMemory(t);
  const provider: MemoryProvider = new MaiarMemoryProvider(memory);
  await provider.init();
  await provider.checkHealth();
  return { provider, memory };
}

test("a task is stored, completed and found as it was", async (t) => {
  const { provider, memory } = await open(t);
  const trigger = JSON.stringify({ id: "1", pluginId: "plugin-chat", content: "Hi", timestamp: 5, metadata: { "10": 1, "2": -0.5 } });
  const context = JSON.stringify([{ id: "2", content: "Hello" }]);
  const id = await provider.storeMemory({ spaceId: "plugin-chat-ana-1", trigger, createdAt: 5, metadata: { a: [null, { b: 1 }] } });
  assert.deepEqual(await provider.queryMemory({ spaceId: "plugin-chat-ana-1" }), [
    { id, spaceId: "plugin-chat-ana-1", trigger, createdAt: 5, metadata: { a: [null, { b: 1 }] } },
  ]);
  assert.equal((await memory.get(id))?.status, "pending");
  await provider.updateMemory(id, { context, trigger: "ignored", metadata: { done: true } });
  const [found] = await provider.queryMemory({ spaceId: "plugin-chat-ana-1" });
  assert.deepEqual(
    [found?.trigger, found?.context, found?.metadata, typeof found?.updatedAt],
    [trigger, context, { done: true }, "number"],
  );
  const stored = await memory.get(id);
  assert.deepEqual([stored?.status, (stored?.trigger as { content: string }).content], ["completed", "Hi"]);
  await assert.rejects(provider.updateMemory("01a1fed6-0358-76ab-aa80-f9ff382e7513", { context }), { kind: "NotFound" });
});

test("text comes back byte for byte, whatever it is", async (t) => {
  const { provider } = await open(t);
  for (const text of [
    "",
    "no JSON",
    '"text"',
    "5",
    "null",
    '{ "a": 1.0 }',
    '{"a":1.0}',
    '{"a":1,"a":2}',
    '{"n":12345678901234567890}',
    "[1e999]",
    '["\\u00e9"]',
    "[]",
    '{"__proto__":1}',
  ]) {
    const id = await provider.storeMemory({ spaceId: "s", trigger: text, context: text, createdAt: 1 });
    const [found] = await provider.queryMemory({ spaceId: "s", limit: 1_000 }).then((all) => all.filter((memory) => memory.id === id));
    assert.deepEqual([found?.trigger, found?.context], [text, text]);
  }
});

test("queries choose spaces, times and pages as MAIAR's do", async (t) => {
  const { provider, memory } = await open(t);
  const spaces = ["chat-ana-1", "chat-ana-2", "chat-bob-1", "x-ana-1"];
  for (const [index, spaceId] of spaces.entries()) await provider.storeMemory({ spaceId, trigger: "{}", createdAt: index });
  for (const [options, expected] of [
    [{}, [3, 2, 1, 0]],
    [{ spaceId: "chat-ana-2" }, [1]],
    [{ spaceId: "chat-ana-2", relatedSpaces: { prefix: "chat-" } }, [2, 1, 0]],
    [{ relatedSpaces: { prefix: "x", pattern: "chat-*-1" } }, [2, 0]],
    [{ spaceId: "chat-ana-2", relatedSpaces: {} }, [3, 2, 1, 0]],
    [{ after: 0, before: 3 }, [2, 1]],
    [{ limit: 2 }, [3, 2]],
    [{ limit: 2, offset: 1 }, [2, 1]],
    [{ offset: 3 }, [0]],
    [{ limit: 0 }, []],
  ] as const) {
    const found = await provider.queryMemory(options);
    assert.deepEqual(
      found.map(({ createdAt }) => createdAt),
      expected,
      JSON.stringify(options),
    );
  }
  await memory.storeMany(Array.from({ length: 2_500 }, (_, index) => ({ spaceId: "many", trigger: {}, createdAt: index })));
  assert.equal((await provider.queryMemory({ spaceId: "many" })).length, 2_500);
  const page = await provider.queryMemory({ spaceId: "many", limit: 2, offset: 2_400 });
  assert.deepEqual(
    page.map(({ createdAt }) => createdAt),
    [99, 98],
  );
});

test("the plugin saves, finds and removes what the model names", async (t) => {
  const { provider } = await open(t);
  const plugin = provider.getPlugin();
  assert.equal(provider.getPlugin(), plugin);
  const answers: unknown[] = [];
  const runtime: MaiarRuntime = { getObject: async (schema) => schema.parse(answers.shift()) };
  (plugin as unknown as { __setRuntime(runtime: MaiarRuntime): void }).__setRuntime(runtime);
  await plugin.init();
  const task = (id: string): MaiarTask => ({ trigger: {}, contextChain: [], space: { id, relatedSpaces: { prefix: "chat-ana-" } } });
  const run = (name: string, id: string, ...given: unknown[]) => {
    answers.push(...given);
    return plugin.executors.find((executor) => executor.name === name)?.fn(task(id)) ?? assert.fail(name);
  };
  const added = await run("memory:add_document", "chat-ana-1", { content: "Ana has a cat" });
  const documentId = (added.data as { documentId: string }).documentId;
  const other = await run("memory:add_document", "chat-bob-1", { content: "Bob has a cat" });
  assert.deepEqual(await run("memory:query", "chat-ana-2", { text: "cat" }), {
    success: true,
    data: { results: [{ id: documentId, content: "Ana has a cat" }] },
  });
  const stranger = (other.data as { documentId: string }).documentId;
  assert.equal((await run("memory:remove_document", "chat-ana-2", { text: "cat" }, { ids: [stranger] })).success, false);
  assert.deepEqual(await run("memory:remove_document", "chat-ana-2", { text: "cat" }, { ids: [stranger, documentId] }), {
    success: true,
    data: { documentIds: [documentId] },
  });
  assert.deepEqual(await run("memory:query", "chat-ana-2", { text: "cat" }), { success: true, data: { results: [] } });
  await plugin.shutdown();
  await provider.checkHealth();
  for (const space of [{ id: "" }, { id: "chat-ana-2", relatedSpaces: {} }, { id: "chat-ana-2", relatedSpaces: { prefix: "" } }]) {
    answers.push({ text: "cat" });
    const executors = plugin.executors.filter(({ name }) => name !== "memory:add_document");
    for (const { fn } of executors) await assert.rejects(fn({ trigger: {}, contextChain: [], space }), { kind: "InvalidInput" });
  }
  await provider.shutdown();
  await assert.rejects(async () => provider.checkHealth(), { kind: "Closed" });
});
