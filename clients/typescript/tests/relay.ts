import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";

/** A server on a database, with a port of its own and the same token after each restart. */
export async function startProgram(t: TestContext, database: string, token: string): Promise<{ url: string; end(): Promise<void> }> {
  const env: NodeJS.ProcessEnv = { ...process.env, AGENT_MEMORY_URL: `sqlite://${database}`, AGENT_MEMORY_TOKEN: token };
  const stdio = ["ignore", "ignore", "pipe"] as const;
  const child: ChildProcess = spawn(env["AGENT_MEMORY_BIN"] ?? "", ["serve", "--listen", "127.0.0.1:0"], { env, stdio: [...stdio] });
  t.after(() => child.kill());
  assert.ok(child.stderr);
  const lines = createInterface({ input: child.stderr });
  for await (const line of lines) {
    const [, url] = /^listening on (http:\/\/\S+)$/.exec(line) ?? [];
    if (url === undefined) continue;
    child.stderr.resume();
    const end = async () => {
      child.kill();
      if (child.exitCode === null) await once(child, "exit");
      assert.equal(child.exitCode, 0);
    };
    return { url, end };
  }
  return assert.fail("the server does not listen");
}

/** Forwards connections to a server, byte by byte, until a test cuts them. */
export class Relay {
  /** The address of the server; without one, new connections are closed at once. */
  target: string | undefined;
  /** The number of forwarded connections. */
  made = 0;
  /** The number of closed connections. */
  refused = 0;
  /** Closes each connection after this many bytes from the server. */
  cutAfter = Infinity;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((client) => this.#accept(client));

  private constructor(target: string | undefined) {
    this.target = target;
  }

  /** A relay to a server, which ends with the test. */
  static async to(t: TestContext, target?: string): Promise<Relay> {
    const relay = new Relay(target);
    relay.#server.listen(0, "127.0.0.1");
    await once(relay.#server, "listening");
    t.after(() => {
      relay.#server.close();
      relay.cut();
    });
    return relay;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Closes all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(client: Socket): void {
    if (this.target === undefined) {
      this.refused += 1;
      client.destroy();
      return;
    }
    const { hostname, port } = new URL(this.target);
    const server = connect(Number(port), hostname);
    server.once("connect", () => (this.made += 1));
    let passed = 0;
    client.on("data", (piece) => server.write(piece));
    server.on("data", (piece) => {
      const left = this.cutAfter - passed;
      passed += piece.length;
      if (piece.length < left) client.write(piece);
      else client.end(piece.subarray(0, left), () => server.destroy());
    });
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        if (!other.writableEnded) other.destroy();
      });
    }
  }
}

/** How many watches a server has open. */
export async function openWatches({ url, token }: { url: string; token: string }): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${token}` } })).text();
  const [, count] = /^agent_memory_watches_open (\d+)$/m.exec(metrics) ?? [];
  assert.ok(count !== undefined);
  return Number(count);
}
