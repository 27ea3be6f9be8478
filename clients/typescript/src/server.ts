import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { checked, findBinary } from "./binary.js";
import { InvalidInputError, MemoryError, UnavailableError } from "./error.js";

/** A server that this process has started. */
export interface Server {
  readonly url: string;
  readonly token: string;
  /** Stops the server once it has answered its open requests. A second call does nothing. */
  close(): Promise<void>;
}

/** The options for starting a server. */
export interface StartOptions {
  readonly binary?: string | undefined;
  readonly embedder?: string | undefined;
  readonly embedderModel?: string | undefined;
  readonly embedderWidth?: number | undefined;
}

/** Starts a server for a database on a free port of this machine, and returns when it listens. */
export async function startServer(database: string, options: StartOptions = {}): Promise<Server> {
  const { binary } = options;
  const program = binary === undefined ? findBinary() : checked(binary, "binary");
  const token = randomBytes(32).toString("base64url");
  // URLs may hold passwords: other users can read a command line, but not the environment.
  const env = { ...process.env, ...embedderIn(options), AGENT_MEMORY_URL: databaseUrl(database), AGENT_MEMORY_TOKEN: token };
  const child = spawnSupervised([program, "serve", "--listen", "127.0.0.1:0"], env);
  const ended = new Promise<void>((end) => child.once("exit", () => end()).once("error", () => end()));
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= end(child, ended));
  try {
    const url = await address(child);
    await checkToken(url);
    release(child);
    return { url, token, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** How long a server may take until it listens, in milliseconds. It migrates the schema before. */
const START = 60_000;
/** How long it may take to stop, in milliseconds. It answers its open requests within ten seconds. */
const END = 15_000;

/**
 * Runs a command until it ends by itself, or until the pipe to it closes, as happens when this process dies for any reason. Its own session
 * keeps a Ctrl-C at the terminal from reaching it. The shell closes its standard error, so that the end of that stream means that the server
 * has ended.
 */
const SUPERVISE = `
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ read -r _ <&3; kill "$server"; } 2>/dev/null &
watcher=$!
exec 3<&- 2>/dev/null
wait "$server"; code=$?
kill "$watcher"
exit "$code"
`;

function spawnSupervised(command: string[], env: NodeJS.ProcessEnv): ChildProcess {
  const stdio = ["pipe", "ignore", "pipe"] as ["pipe", "ignore", "pipe"];
  if (process.platform !== "win32") {
    return spawn("/bin/sh", ["-c", SUPERVISE, "agent-memory", ...command], { env, stdio, detached: true });
  }
  const [program = "", ...args] = command;
  const child = spawn(program, args, { env, stdio, windowsHide: true });
  const kill = () => child.kill();
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  return child;
}

/** The address in the line that says where the server listens. If it does not listen, its last line is the reason. */
function address(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let last = "it said nothing";
    const fail = (why: string) => {
      clearTimeout(timer);
      failed(new UnavailableError(`the server ${why}: ${last}`));
    };
    const timer = setTimeout(() => fail(`does not listen after ${START / 1_000} seconds`), START);
    child.once("error", (error) => fail(`can't be started (${error.message})`));
    const lines = createInterface({ input: child.stderr as Readable });
    // The output ends after its last line, but the process may end before.
    lines.once("close", () => fail("did not start"));
    lines.on("line", (line) => {
      const [, url] = /^listening on (http:\/\/\S+)$/.exec(line) ?? [];
      if (url === undefined) {
        last = line;
        return;
      }
      clearTimeout(timer);
      found(url);
    });
  });
}

/** Refuses a server that does not require a token: an older program ignores the token, and would let in every user of the machine. */
async function checkToken(url: string): Promise<void> {
  const response = await fetch(`${url}/v1/health`, { signal: AbortSignal.timeout(START) }).catch((cause: unknown) => {
    throw new UnavailableError("the server does not answer", { cause });
  });
  await response.body?.cancel();
  if (response.status === 401) return;
  throw new MemoryError("Unsupported", "the program agent-memory is older than this client, and asks for no token: upgrade it");
}

/** Lets this process end while the server runs; the pipe closes then, which stops the server. */
function release(child: ChildProcess): void {
  child.unref();
  for (const stream of [child.stdin, child.stderr] as unknown as { unref?: () => void }[]) stream.unref?.();
}

async function end(child: ChildProcess, ended: Promise<void>): Promise<void> {
  child.ref();
  if (process.platform === "win32") child.kill();
  child.stdin?.on("error", () => {}).destroy();
  const timer = setTimeout(() => killAll(child), END);
  await ended;
  clearTimeout(timer);
  child.stderr?.destroy();
}

function killAll(child: ChildProcess): void {
  if (child.pid === undefined || process.platform === "win32") return void child.kill("SIGKILL");
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // The process has ended meanwhile.
  }
}

/** The environment variables that name the embedding model to a server. Options that are not given keep the environment's value. */
function embedderIn({ embedder, embedderModel, embedderWidth }: StartOptions): NodeJS.ProcessEnv {
  return {
    ...(embedder === undefined ? {} : { AGENT_MEMORY_EMBEDDER: embedder }),
    ...(embedderModel === undefined ? {} : { AGENT_MEMORY_EMBEDDER_MODEL: embedderModel }),
    ...(embedderWidth === undefined ? {} : { AGENT_MEMORY_EMBEDDER_WIDTH: String(embedderWidth) }),
  };
}

function databaseUrl(database: string): string {
  if (database === "") throw new InvalidInputError('name the file of the database, as in Memory.open("memory.db")');
  // A single letter before the colon is a drive of Windows.
  if (/^[a-z][a-z0-9+]+:/i.test(database)) return database;
  return `sqlite://${encodeURIComponent(resolve(database)).replaceAll("%2F", "/")}`;
}
