import { Memory, UnavailableError } from "agent-memory";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { temporaryFolder, until } from "./support.js";

/** A program that opens a memory, prints its URL, and then runs the given code. */
function program(database: string, then: string) {
  const script = `import { Memory } from "agent-memory"; const memory = await Memory.open(process.argv[1]); console.log(memory.url); ${then}`;
  return run(script, database, process.env);
}

function run(script: string, database: string, env: NodeJS.ProcessEnv) {
  const cwd = new URL("..", import.meta.url).pathname;
  return spawn(process.execPath, ["--input-type=module", "-e", script, database], { cwd, env, stdio: ["ignore", "pipe", "inherit"] });
}

async function answers(url: string): Promise<boolean> {
  return fetch(`${url}/v1/health`).then(
    () => true,
    () => false,
  );
}

test("a database is made, and is there when it is opened again", async (t) => {
  const file = join(await temporaryFolder(t), "new folder", "a b%20?#é.db");
  const memory = await Memory.open(file);
  const id = await memory.store("ana", { text: "hi" });
  await memory.close();
  await memory.close();
  assert.ok(existsSync(file));
  assert.equal(await answers(memory.url ?? ""), false);
  await assert.rejects(memory.get(id), { kind: "Closed" });
  {
    await using again = await Memory.open(`sqlite://${encodeURIComponent(file)}`);
    assert.deepEqual((await again.get(id))?.trigger, { text: "hi" });
  }
});

test("several memories are open at once, on one file too", async (t) => {
  const file = join(await temporaryFolder(t), "memory.db");
  const [one, other] = await Promise.all([Memory.open(file), Memory.open(file)]);
  try {
    assert.notEqual(one.url, other.url);
    const id = await one.store("ana", 1);
    assert.equal((await other.get(id))?.trigger, 1);
  } finally {
    await Promise.all([one.close(), other.close()]);
  }
});

test("the server ends with its program, however that ends", { timeout: 60_000 }, async (t) => {
  const database = join(await temporaryFolder(t), "memory.db");
  for (const [then, signal] of [
    ["setInterval(() => {}, 1e6)", "SIGKILL"],
    ["setInterval(() => {}, 1e6)", "SIGTERM"],
    ["", undefined],
  ] as const) {
    const child = program(database, then);
    const [url] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
    if (signal !== undefined) {
      assert.ok(await answers(url));
      child.kill(signal);
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    await until(async () => !(await answers(url)));
  }
});

test("a command line tells neither the database nor the token", { skip: process.platform !== "linux" }, async (t) => {
  const file = join(await temporaryFolder(t), "secret.db");
  await using memory = await Memory.open(file);
  const port = new URL(memory.url ?? "").port;
  const commands: string[] = [];
  for (const process of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${process}/cmdline`, "utf8").catch(() => "");
    if (command.includes("serve")) commands.push(command);
  }
  assert.ok(commands.some((command) => command.includes("127.0.0.1:0")));
  assert.ok(commands.every((command) => !command.includes("secret.db") && !command.includes(port)));
});

test("what can't be opened is told by the server's own words", async (t) => {
  const folder = await temporaryFolder(t);
  for (const database of [folder, "sqlite://a.db?mode=xyzzy", "nonsense://host"]) {
    await assert.rejects(
      Memory.open(database),
      (error) => error instanceof UnavailableError && /^the server did not start: .+/.test(error.message),
    );
  }
  await assert.rejects(Memory.open(""), { kind: "InvalidInput" });
  await assert.rejects(Memory.open("memory.db", { binary: join(folder, "missing") }), {
    kind: "InvalidInput",
    message: /^binary names no program/,
  });
});

test("the server gets a token in its environment, and the client sends it", { skip: process.platform === "win32" }, async (t) => {
  const binary = join(await temporaryFolder(t), "binary");
  // Refuses requests without the token, and reveals no engine but the one of its URL.
  const server = `#!${process.execPath}
    const { AGENT_MEMORY_TOKEN, AGENT_MEMORY_URL } = process.env;
    const server = require("node:http").createServer((request, response) => {
      const isKnown = AGENT_MEMORY_TOKEN.length > 40 && request.headers.authorization === "Bearer " + AGENT_MEMORY_TOKEN;
      response.writeHead(isKnown ? 200 : 401).end(JSON.stringify({ engine: AGENT_MEMORY_URL }));
    });
    server.listen(0, "127.0.0.1", () => console.error("listening on http://127.0.0.1:" + server.address().port));
  `;
  await writeFile(binary, server, { mode: 0o755 });
  await using memory = await Memory.open("postgres://user:password@host/database", { binary });
  assert.equal((await memory.health()).engine, "postgres://user:password@host/database");
  await assert.rejects(Memory.connect(memory.url ?? "").health(), { kind: "Unauthorized" });
});

test("a server that asks for no token is ended", { skip: process.platform === "win32" }, async (t) => {
  const folder = await temporaryFolder(t);
  const [binary, file] = [join(folder, "binary"), join(folder, "url")];
  const server = `#!${process.execPath}
    const server = require("node:http").createServer((_, response) => response.end("{}"));
    server.listen(0, "127.0.0.1", () => {
      const url = "http://127.0.0.1:" + server.address().port;
      require("node:fs").writeFileSync(${JSON.stringify(file)}, url);
      console.error("listening on " + url);
    });
  `;
  await writeFile(binary, server, { mode: 0o755 });
  await assert.rejects(Memory.open("memory.db", { binary }), { kind: "Unsupported", message: /older than this client.*upgrade it$/ });
  assert.equal(await answers(await readFile(file, "utf8")), false);
});

test("a server that has ended is told apart from one that was never there", { skip: process.platform === "win32" }, async (t) => {
  const binary = join(await temporaryFolder(t), "binary");
  // Asks for the token, and is gone.
  const server = `#!${process.execPath}
    const server = require("node:http").createServer((_, response) => {
      server.close();
      response.writeHead(401, { connection: "close" }).end(() => process.exit());
    });
    server.listen(0, "127.0.0.1", () => console.error("listening on http://127.0.0.1:" + server.address().port));
  `;
  await writeFile(binary, server, { mode: 0o755 });
  await using memory = await Memory.open("memory.db", { binary, retries: 0 });
  await assert.rejects(memory.health(), { kind: "Unavailable", message: /\(ECONNREFUSED\); its server has ended: open the memory again$/ });
});

test("without a binary the message says what to do", async (t) => {
  const database = join(await temporaryFolder(t), "memory.db");
  const script = `import { Memory } from "agent-memory"; await Memory.open(process.argv[1]).catch((error) => console.log(error.message))`;
  const { AGENT_MEMORY_BIN: _, ...env } = process.env;
  const child = run(script, database, { ...env, PATH: "" });
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  for (const advice of ["@agent-memory/", "cargo install agent-memory-cli", "PATH", "AGENT_MEMORY_BIN"])
    assert.ok(line.includes(advice), line);
});
