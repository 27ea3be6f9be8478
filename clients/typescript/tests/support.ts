import { Memory } from "agent-memory";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { startServer } from "../dist/server.js";

/** A folder that is removed after the test. */
export async function temporaryFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "agent-memory-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A new memory, behind a server that ends with the test: on SQLite, or in a namespace of the database of `AGENT_MEMORY_TEST_URL`. */
export async function openMemory(t: TestContext): Promise<Memory> {
  const database = process.env["AGENT_MEMORY_TEST_URL"] ?? "sqlite";
  const memory = await Memory.open(database === "sqlite" ? join(await temporaryFolder(t), "memory.db") : ofItsOwn(database));
  t.after(() => memory.close());
  return memory;
}

/** The URL of a namespace that no other test uses; test data stays there. */
function ofItsOwn(database: string): string {
  const [url, name] = [new URL(database), `test_${randomBytes(8).toString("hex")}`];
  // The database of MongoDB is the namespace.
  if (url.protocol.startsWith("mongodb")) url.pathname = name;
  else url.searchParams.set("namespace", name);
  return url.href;
}

/** A server on a new database, for clients that connect to it. */
export async function serve(t: TestContext): Promise<{ url: string; token: string }> {
  const server = await startServer(join(await temporaryFolder(t), "memory.db"));
  t.after(() => server.close());
  return server;
}

/** A request as a scripted server has seen it. */
export interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** Answers one request; its arguments are the request and the response. */
export type Answer = (seen: Seen, response: ServerResponse) => void;

/** A real HTTP server that gives these answers, one for each request; further requests get the last one. */
export async function scripted(t: TestContext, ...answers: Answer[]): Promise<{ url: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "", url = "", headers } = request;
    seen.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
    const answer = answers[Math.min(seen.length, answers.length) - 1];
    answer?.(seen[seen.length - 1] as Seen, response);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

/** A port of this machine at which nothing listens. */
export async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return port;
}

export function json(value: unknown, status = 200): Answer {
  return (_, response) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
}

export function problem(status: number, members: object = {}, headers: Record<string, string> = {}): Answer {
  return (_, response) =>
    response
      .writeHead(status, { "content-type": "application/problem+json", ...headers })
      .end(JSON.stringify({ type: "about:blank", title: "Error", status, detail: "a reason", retryable: false, ...members }));
}

/** Reads the request, and closes the connection instead of answering. */
export const cutOff: Answer = (_, response) => response.destroy();

/** Reads the request, and never answers. */
export const silence: Answer = () => {};

/** Polls until a condition holds. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resume) => setTimeout(resume, 20));
}
