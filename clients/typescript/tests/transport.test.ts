import {
  AbortedError,
  ConflictError,
  InvalidInputError,
  Memory,
  MemoryError,
  TimeoutError,
  UnauthorizedError,
  UnavailableError,
} from "agent-memory";
import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { closedPort, cutOff, json, problem, scripted, silence } from "./support.js";

const ID = "01a1fed6-0358-76ab-aa80-f9ff382e7513";
const TOKEN = "secret-secret-secret";
const document = { id: "a", collection: "notes", spaceId: "s", content: "", metadata: {}, createdAt: 0, revision: 1 };

async function failure(call: Promise<unknown>): Promise<MemoryError> {
  const error = await call.then(
    () => assert.fail("the call succeeds"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof MemoryError, inspect(error));
  return error;
}

test("a store is repeated with the same key when its outcome is unknown", async (t) => {
  const { url, seen } = await scripted(t, cutOff, problem(504, { outcome: "unknown", retryable: true }), json({ id: ID }, 201));
  assert.equal(await Memory.connect(url).store("s", { text: "hi" }), ID);
  assert.equal(seen.length, 3);
  const keys = seen.map(({ body }) => (JSON.parse(body) as { idempotencyKey: string }).idempotencyKey);
  assert.match(keys[0] ?? "", /^[0-9a-f-]{36}$/);
  assert.deepEqual(new Set(keys).size, 1);
});

test("each memory of a batch has a key of its own, and the caller's stays", async (t) => {
  const { url, seen } = await scripted(t, cutOff, json({ ids: [ID, ID, ID] }, 201));
  const memories = [
    { spaceId: "s", trigger: 1 },
    { spaceId: "s", trigger: 1 },
    { spaceId: "s", trigger: 1, idempotencyKey: "mine" },
  ];
  await Memory.connect(url).storeMany(memories);
  const [first, second] = seen.map(({ body }) => (JSON.parse(body) as { memories: { idempotencyKey: string }[] }).memories);
  assert.deepEqual(first, second);
  const keys = first?.map(({ idempotencyKey }) => idempotencyKey) ?? [];
  assert.equal(new Set(keys).size, 3);
  assert.equal(keys[2], "mine");
});

test("what is known not to be done is repeated, whatever it is", async (t) => {
  const busy = problem(503, { error: "Unavailable", retryable: true }, { "retry-after": "0" });
  const { url, seen } = await scripted(t, busy, busy, json({ revision: 2 }));
  assert.deepEqual(await Memory.connect(url).update(ID, { status: "completed" }), { revision: 2 });
  assert.equal(seen.length, 3);
});

test("a change without a revision is not repeated when its outcome is unknown", async (t) => {
  const { url, seen } = await scripted(t, cutOff);
  const memory = Memory.connect(url);
  const documents = memory.documents("notes");
  for (const call of [
    () => memory.update(ID, { status: "failed" }),
    () => documents.put("a", { spaceId: "s", content: "" }),
    () => documents.remove({ id: "a" }),
  ]) {
    seen.length = 0;
    const error = await failure(call());
    assert.deepEqual([error.kind, error.outcome, seen.length], ["Unavailable", "Unknown", 1]);
  }
});

test("a change with a revision is repeated, and a conflict behind that is no proof that it was not done", async (t) => {
  const { url, seen } = await scripted(t, cutOff, problem(409, { error: "Conflict" }));
  const error = await failure(Memory.connect(url).update(ID, { status: "failed", ifRevision: 3 }));
  assert.ok(error instanceof ConflictError);
  assert.deepEqual([error.outcome, seen.length], ["Unknown", 2]);

  const { url: other } = await scripted(t, problem(412, { error: "Conflict" }));
  const refused = await failure(Memory.connect(other).documents("notes").put("a", { spaceId: "s", content: "" }, { expect: 1 }));
  assert.deepEqual([refused.kind, refused.outcome, refused.status], ["Conflict", "NotDone", 412]);
});

test("an added document is found again when its answer was lost", async (t) => {
  const { url, seen } = await scripted(t, cutOff, problem(412, { error: "Conflict" }), json(document));
  assert.deepEqual(await Memory.connect(url).documents("notes").add({ spaceId: "s", content: "" }), document);
  assert.deepEqual(
    seen.map(({ method }) => method),
    ["PUT", "PUT", "GET"],
  );
  assert.equal(new Set(seen.map(({ url }) => url)).size, 1);
  assert.equal(seen[0]?.headers["if-none-match"], "*");
});

test("a look that fails does not say that what it looks for was not done", async (t) => {
  const conflict = problem(412, { error: "Conflict" });
  const { url } = await scripted(t, cutOff, conflict, problem(403, { error: "Unauthorized" }));
  const error = await failure(Memory.connect(url).documents("notes").add({ spaceId: "s", content: "" }));
  assert.deepEqual([error.kind, error.outcome], ["Unauthorized", "Unknown"]);
  const gone = await scripted(t, cutOff, conflict, problem(404, { error: "NotFound" }));
  const removed = await failure(Memory.connect(gone.url).documents("notes").add({ spaceId: "s", content: "" }));
  assert.deepEqual([removed.kind, removed.outcome], ["Conflict", "Unknown"]);
});

test("many documents are put again where each has an expectation or a new id", async (t) => {
  const { url, seen } = await scripted(t, cutOff, json({ documents: [] }));
  const document = { collection: "notes", spaceId: "s", content: "" };
  await Memory.connect(url).putDocuments([document, { ...document, id: "a", expect: 3 }]);
  const [first, second] = seen.map(({ body }) => (JSON.parse(body) as { documents: { id: string; expect: unknown }[] }).documents);
  assert.deepEqual(first, second);
  assert.deepEqual(
    first?.map(({ id, expect }) => [id.length, expect]),
    [
      [36, "absent"],
      [1, { revision: 3 }],
    ],
  );
  const { url: other } = await scripted(t, cutOff);
  assert.equal((await failure(Memory.connect(other).putDocuments([{ ...document, id: "a" }]))).outcome, "Unknown");
});

test("retries end", async (t) => {
  const { url, seen } = await scripted(t, problem(503, { error: "Unavailable", retryable: true }, { "retry-after": "0" }));
  assert.ok((await failure(Memory.connect(url, { retries: 2 }).health())) instanceof UnavailableError);
  assert.equal(seen.length, 3);
});

test("a server that wants to be left alone beyond the deadline is not asked again", async (t) => {
  const { url, seen } = await scripted(t, problem(503, { error: "Unavailable", retryable: true }, { "retry-after": "3600" }));
  assert.equal((await failure(Memory.connect(url, { timeout: 20_000 }).health())).kind, "Unavailable");
  assert.equal(seen.length, 1);
});

test("a call ends with its deadline, and says whether it may have been done", async (t) => {
  const { url } = await scripted(t, silence);
  const memory = Memory.connect(url, { timeout: 50 });
  const read = await failure(memory.health());
  assert.ok(read instanceof TimeoutError);
  assert.equal(read.outcome, "NotDone");
  assert.equal((await failure(memory.store("s", 1))).outcome, "Unknown");
  assert.equal((await failure(memory.health({ timeout: 0 }))).kind, "InvalidInput");
});

test("a signal ends a call", async (t) => {
  const controller = new AbortController();
  const { url, seen } = await scripted(t, () => controller.abort("enough"));
  const error = await failure(Memory.connect(url).store("s", 1, { signal: controller.signal }));
  assert.ok(error instanceof AbortedError);
  assert.deepEqual([error.name, error.cause, error.outcome, seen.length], ["AbortError", "enough", "Unknown", 1]);
  const early = await failure(Memory.connect(url).store("s", 1, { signal: controller.signal }));
  assert.deepEqual([early.outcome, seen.length], ["NotDone", 1]);
});

test("a server that is not there is named, with what to do", async () => {
  const port = await closedPort();
  const error = await failure(Memory.connect(`http://127.0.0.1:${port}`, { retries: 1 }).store("s", 1));
  assert.ok(error instanceof UnavailableError);
  assert.equal(error.outcome, "NotDone");
  assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${port} \\(ECONNREFUSED\\); start it with \`agent-memory serve\``));
});

test("another program, a proxy, or an older server is told apart", async (t) => {
  const page = await scripted(t, (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>"));
  assert.match((await failure(Memory.connect(page.url).health())).message, /is this an agent-memory server\?/);
  const old = await scripted(t, problem(404, { detail: "nothing is served at this path" }));
  const missing = await failure(Memory.connect(old.url).recall("who?", { all: true }));
  assert.deepEqual(
    [missing.kind, missing.message],
    ["Unsupported", "nothing is served at this path: the server is older than this client"],
  );
  const moved = await scripted(t, (_, response) => response.writeHead(307, { location: "http://127.0.0.1:9/" }).end());
  assert.deepEqual((await failure(Memory.connect(moved.url).health())).kind, "Unexpected");
  const proxy = await scripted(t, (_, response) => response.writeHead(502).end("bad gateway"));
  const lost = await failure(Memory.connect(proxy.url, { retries: 0 }).update(ID, {}));
  assert.deepEqual([lost.kind, lost.outcome], ["Unavailable", "Unknown"]);
  const refusing = await scripted(t, problem(401));
  assert.ok((await failure(Memory.connect(refusing.url).health())) instanceof UnauthorizedError);
});

test("a token is sent, and shows nowhere else", async (t) => {
  const { url, seen } = await scripted(t, problem(401));
  const memory = Memory.connect(url, { token: TOKEN });
  const error = await failure(memory.health());
  assert.equal(seen[0]?.headers.authorization, `Bearer ${TOKEN}`);
  for (const shown of [inspect(memory, { showHidden: true, depth: 9 }), inspect(error, { depth: 9 }), JSON.stringify(memory)]) {
    assert.ok(!shown.includes(TOKEN), shown);
  }
});

test("mistakes are refused before anything is sent", async (t) => {
  for (const url of ["memory.db", "ftp://host", "http://user:password@host/", ""])
    assert.throws(() => Memory.connect(url), InvalidInputError);
  assert.throws(() => Memory.connect("http://host", { token: "two lines\n" }), InvalidInputError);
  const { url, seen } = await scripted(t, json({}));
  const memory = Memory.connect(url);
  assert.throws(() => memory.documents("No such name"), InvalidInputError);
  for (const call of [
    () => memory.get("../health"),
    () => memory.store("s", Number.NaN),
    () => memory.documents("notes").get(".."),
    () => memory.documents("notes").get("\ud800"),
  ]) {
    assert.ok((await failure(call())) instanceof InvalidInputError);
  }
  await memory.close();
  assert.equal((await failure(memory.health())).kind, "Closed");
  assert.equal(seen.length, 0);
});
