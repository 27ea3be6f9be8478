import {
  AbortedError,
  type Change,
  FeedResetError,
  InvalidInputError,
  Memory,
  TimeoutError,
  UnauthorizedError,
  UnavailableError,
} from "agent-memory";
import assert from "node:assert/strict";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Transport } from "../dist/transport.js";
import { changes } from "../dist/watch.js";
import { openWatches, Relay, startProgram } from "./relay.js";
import { openMemory, scripted, serve, silence, temporaryFolder, until } from "./support.js";

type Watch = AsyncGenerator<Change, void, undefined>;

async function next(watch: Watch): Promise<Change> {
  const { done, value } = await watch.next();
  return done ? assert.fail("the watch has ended") : value;
}

/** The next change of a record. */
async function nextRecord(watch: Watch): Promise<Change> {
  for (;;) {
    const change = await next(watch);
    if (change.kind !== "reached" && change.kind !== "progress") return change;
  }
}

function idOf(change: Change): string | undefined {
  return "memory" in change ? change.memory?.id : undefined;
}

async function nextIds(watch: Watch, count: number): Promise<(string | undefined)[]> {
  const ids = [];
  while (ids.length < count) ids.push(idOf(await nextRecord(watch)));
  return ids;
}

/** Reads a watch to its end. */
class Reader {
  readonly told: Change[] = [];
  readonly ended: Promise<unknown>;

  constructor(watch: Watch) {
    this.ended = this.#read(watch).catch((error: unknown) => error);
  }

  async #read(watch: Watch): Promise<undefined> {
    for await (const change of watch) this.told.push(change);
  }

  /** The delivered memories, in the order of their first delivery. */
  get ids(): string[] {
    return [...new Set(this.told.map(idOf).filter((id) => id !== undefined))];
  }

  async has(ids: readonly string[]): Promise<void> {
    await until(() => this.ids.length >= ids.length);
    assert.deepEqual(this.ids, ids);
  }
}

test("changes come as they are made, and what is not watched does not", async (t) => {
  const memory = await openMemory(t);
  const watch = memory.watch({ under: "ana", of: "both", collection: "notes" });
  assert.equal((await next(watch)).kind, "reached");
  await memory.store("ana2", 1);
  const trigger = { text: "é 🐈", chip: 9007199254740993n };
  const id = await memory.store("ana-m1", trigger);
  const stored = await nextRecord(watch);
  assert.ok(stored.kind === "stored" && stored.memory !== undefined);
  assert.deepEqual(stored.memory, await memory.get(id));
  assert.deepEqual(stored.memory.trigger, trigger);
  await memory.update(id, { status: "completed" });
  const updated = await nextRecord(watch);
  assert.ok(updated.kind === "updated" && updated.memory?.status === "completed");
  await memory.documents("other").put("d", { spaceId: "ana", content: "x" });
  const document = await memory.documents("notes").put("d", { spaceId: "ana", content: "line\r\nline" });
  const put = await nextRecord(watch);
  assert.ok(put.kind === "stored");
  assert.deepEqual(put.document, document);
  await memory.documents("notes").remove({ id: "d" });
  const { token, ...gone } = await nextRecord(watch);
  assert.deepEqual(gone, { kind: "removed", id: "d", collection: "notes" });
  await watch.return();
  const again = memory.watch({ under: "ana", of: "both", collection: "notes", from: put.token });
  assert.deepEqual((await nextRecord(again)).kind, "removed");
  assert.ok(token.length > 0);
  await again.return();
});

test("a watch from the start tells what is there first, and then what has left", async (t) => {
  const memory = await openMemory(t);
  const new_ = Array.from({ length: 250 }, (_, n) => ({ spaceId: `ana-${n}`, trigger: { n }, createdAt: n }));
  const ids = await memory.storeMany(new_);
  const told: Change[] = [];
  const watch = memory.watch({ under: "ana", from: "start", status: ["pending", "running"] });
  for await (const change of watch) {
    if (change.kind === "reached") break;
    told.push(change);
  }
  assert.deepEqual(told.map(idOf), ids);
  await memory.update(ids[7] ?? "", { status: "failed" });
  const rest = memory.watch({ under: "ana", status: ["pending", "running"], from: told[99]?.token ?? "" });
  const first = await nextIds(rest, 150);
  assert.deepEqual(first, ids.slice(100));
  const left = await nextRecord(rest);
  assert.deepEqual([left.kind, "id" in left && left.id], ["left", ids[7]]);
  await rest.return();
});

test("mistakes are told, and not tried again", async (t) => {
  const { url, token } = await serve(t);
  const memory = Memory.connect(url, { token });
  const reached = await next(memory.watch({ under: "ana" }));
  for (const mistake of [
    { under: "ana", from: "forged" },
    { under: "bob", from: reached.token },
    { under: "ana", collection: "notes" },
    { under: [] },
    {},
  ] as const) {
    await assert.rejects(memory.watch(mistake).next(), InvalidInputError, JSON.stringify(mistake));
  }
  await assert.rejects(Memory.connect(url, { token: "another" }).watch({ all: true }).next(), UnauthorizedError);
  await memory.close();
  await assert.rejects(memory.watch({ all: true }).next(), { kind: "Closed" });
});

test("a watch goes on by itself over a restart of the server, and loses nothing", async (t) => {
  const [database, token] = [join(await temporaryFolder(t), "memory.db"), "0123456789abcdef"];
  const relay = await Relay.to(t);
  const memory = Memory.connect(relay.url, { token });
  let server = await startProgram(t, database, token);
  relay.target = server.url;
  const reader = new Reader(memory.watch({ under: "ana" }));
  await until(() => reader.told.length === 1);
  const ids = [await memory.store("ana-m1", 1)];
  await reader.has(ids);
  await server.end();
  relay.target = undefined;
  await until(() => relay.refused >= 2);
  {
    await using meanwhile = await Memory.open(database);
    for (const n of [1, 2, 3]) ids.push(await meanwhile.store("ana-m2", n));
  }
  server = await startProgram(t, database, token);
  relay.target = server.url;
  await reader.has(ids);
  ids.push(await memory.store("ana-m3", 1));
  await reader.has(ids);
  await memory.close();
  assert.equal(await reader.ended, undefined);
});

test("a connection that is cut anywhere loses nothing", async (t) => {
  const server = await serve(t);
  const [direct, relay] = [Memory.connect(server.url, server), await Relay.to(t, server.url)];
  const new_ = Array.from({ length: 20 }, (_, n) => ({ spaceId: "ana", trigger: { text: "é🐈".repeat(50) }, createdAt: n }));
  const ids = await direct.storeMany(new_);
  // Some changes come whole, and a part of the next.
  relay.cutAfter = 3_500;
  const memory = Memory.connect(relay.url, server);
  const reader = new Reader(memory.watch({ under: "ana", from: "start" }));
  await reader.has(ids);
  assert.ok(relay.made > 3);
  relay.cutAfter = Infinity;
  relay.cut();
  ids.push(await direct.store("ana", 1));
  await reader.has(ids);
  await memory.close();
  assert.equal(await reader.ended, undefined);
});

test("a silent connection is replaced, but not where the caller takes time", async (t) => {
  const server = await serve(t);
  const [direct, relay] = [Memory.connect(server.url, server), await Relay.to(t, server.url)];
  const transport = new Transport(relay.url, { ...server, timeout: 2_000 }, "");
  const watch = changes(transport, { under: "ana" }, {}, 200);
  await next(watch);
  const deaf = await scripted(t, silence);
  await assert.rejects(Memory.connect(deaf.url, { timeout: 1_000 }).health(), { kind: "Timeout" });
  assert.equal(relay.made, 1);
  const reader = new Reader(watch);
  // Also when this takes longer than a call may take.
  await until(() => relay.made >= 12);
  const id = await direct.store("ana", 1);
  await reader.has([id]);
  transport.close();
  assert.equal(await reader.ended, undefined);
});

test("a watch outlasts the timeout of a call", async (t) => {
  const [server, deaf] = [await serve(t), await scripted(t, silence)];
  const relay = await Relay.to(t, server.url);
  const memory = Memory.connect(relay.url, { ...server, timeout: 500 });
  const reader = new Reader(memory.watch({ under: "ana" }));
  await until(() => reader.told.length === 1);
  await assert.rejects(Memory.connect(deaf.url, { timeout: 1_000 }).health(), { kind: "Timeout" });
  await reader.has([await Memory.connect(server.url, server).store("ana", 1)]);
  assert.equal(relay.made, 1);
  await memory.close();
  await reader.ended;
});

test("a server that stays away is told in time", async (t) => {
  const server = await serve(t);
  const relay = await Relay.to(t, server.url);
  const memory = Memory.connect(relay.url, { ...server, timeout: 2_000 });
  // Which of them comes depends on when the time is over.
  const isAway = (error: unknown) => error instanceof UnavailableError || error instanceof TimeoutError;
  const watch = memory.watch({ all: true });
  await next(watch);
  relay.target = undefined;
  relay.cut();
  await assert.rejects(watch.next(), isAway);
  assert.ok(relay.refused >= 2);
  assert.deepEqual(await watch.next(), { done: true, value: undefined });
  await assert.rejects(memory.watch({ all: true }).next(), isAway);
});

test("a database that went back is told", async (t) => {
  const folder = await temporaryFolder(t);
  const [database, backup] = [join(folder, "memory.db"), join(folder, "backup")];
  {
    await using memory = await Memory.open(database);
    await memory.store("ana", 1);
  }
  await copyFile(database, backup);
  let token: string;
  {
    await using memory = await Memory.open(database);
    const watch = memory.watch({ all: true });
    await next(watch);
    await memory.store("ana", 2);
    ({ token } = await nextRecord(watch));
  }
  await copyFile(backup, database);
  await using memory = await Memory.open(database);
  for (const n of [3, 4, 5]) await memory.store("ana", n);
  await assert.rejects(memory.watch({ all: true, from: token }).next(), (error) => {
    assert.ok(error instanceof FeedResetError);
    assert.deepEqual([error.kind, error.status, error.retryable], ["FeedReset", 410, false]);
    return true;
  });
});

test("who leaves the loop, aborts or closes frees the watch", async (t) => {
  const server = await serve(t);
  const memory = Memory.connect(server.url, server);
  for await (const { kind } of memory.watch({ all: true })) {
    assert.deepEqual([kind, await openWatches(server)], ["reached", 1]);
    break;
  }
  await until(async () => (await openWatches(server)) === 0);

  const controller = new AbortController();
  const [aborted, closed] = [memory.watch({ all: true }, { signal: controller.signal }), memory.watch({ all: true })];
  const readers = [new Reader(aborted), new Reader(closed)] as const;
  await until(() => readers.every(({ told }) => told.length === 1));
  controller.abort("enough");
  const error = await readers[0].ended;
  assert.ok(error instanceof AbortedError);
  assert.deepEqual([error.name, error.cause], ["AbortError", "enough"]);
  await until(async () => (await openWatches(server)) === 1);
  await memory.close();
  assert.equal(await readers[1].ended, undefined);
  await until(async () => (await openWatches(server)) === 0);
  await assert.rejects(aborted.next().then(() => memory.watch({ all: true }).next()), { kind: "Closed" });
});

test("many watches leave calls their connections, and warn of nothing", async (t) => {
  const warned: Error[] = [];
  const warn = (warning: Error) => void warned.push(warning);
  process.on("warning", warn);
  t.after(() => process.off("warning", warn));
  const server = await serve(t);
  const memory = Memory.connect(server.url, server);
  const readers = Array.from({ length: 110 }, () => new Reader(memory.watch({ all: true })));
  await until(() => readers.every(({ told }) => told.length === 1));
  const id = await memory.store("ana", 1);
  for (const reader of readers) await reader.has([id]);
  await memory.close();
  assert.deepEqual(await Promise.all(readers.map(({ ended }) => ended)), readers.map(() => undefined));
  assert.deepEqual(warned, []);
});
