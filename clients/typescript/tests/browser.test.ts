import type { Memory } from "agent-memory";
import { build } from "esbuild";
import assert from "node:assert/strict";
import { test } from "node:test";
import { createContext, runInContext } from "node:vm";
import { serve } from "./support.js";

test("a bundle for browsers has no part of Node.js, and talks to a server", async (t) => {
  const { url, token } = await serve(t);
  const { outputFiles } = await build({
    entryPoints: [new URL("../dist/index.js", import.meta.url).pathname],
    bundle: true,
    platform: "browser",
    format: "iife",
    globalName: "client",
    write: false,
  });
  const [bundle] = outputFiles;
  assert.ok(bundle !== undefined && !/node:|require\(/.test(bundle.text));
  // The globals of a page; those of Node.js are missing.
  const page = createContext({
    fetch,
    URL,
    URLSearchParams,
    AbortController,
    TextDecoder,
    TextEncoder,
    crypto,
    performance,
    setTimeout,
    clearTimeout,
  });
  runInContext(bundle.text, page);
  const client = (page as { client: { Memory: typeof Memory } }).client;
  const memory = client.Memory.connect(url, { token });
  const id = await memory.store("ana", { big: 2n ** 64n });
  assert.equal((await memory.get(id))?.revision, 1);
  const watch = memory.watch({ under: "ana", from: "start" });
  const { value } = await watch.next();
  assert.ok(value?.kind === "stored" && value.memory?.id === id);
  await watch.return();
  await assert.rejects(client.Memory.open("memory.db"), { kind: "Unsupported", message: /use Memory\.connect/ });
});
