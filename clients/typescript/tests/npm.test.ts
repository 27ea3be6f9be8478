import assert from "node:assert/strict";
import { execFile, type ExecFileOptions } from "node:child_process";
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "./support.js";

const execute = promisify(execFile);
const PACK = new URL("../npm/pack.mjs", import.meta.url).pathname;
const FIRST_USE = `
import { Memory } from "agent-memory";
const memory = await Memory.open("memory.db");
await memory.store("ana-m1", { text: "I adopted a cat" });
const { hits } = await memory.recall("Who adopted a cat?", { under: "ana" });
console.log(hits[0].memory.trigger.text);
await memory.close();
`;

test("the packages install into an empty folder, and bring the binary", { skip: process.platform === "win32" }, async (t) => {
  const folder = await temporaryFolder(t);
  // Stands for the binary, which is too large to be packed in a test.
  const binary = join(folder, "binary");
  await writeFile(binary, `#!/bin/sh\nexec '${process.env["AGENT_MEMORY_BIN"]}' "$@"\n`);
  await chmod(binary, 0o755);
  const packages = join(folder, "packages");
  await execute(process.execPath, [PACK, packages]);
  await execute(process.execPath, [PACK, packages, `${process.platform}-${process.arch}`, binary]);
  const tarballs = (await readdir(packages)).map((name) => join(packages, name));
  assert.equal(tarballs.length, 2);

  const app = join(folder, "app");
  await mkdir(app);
  await writeFile(join(app, "package.json"), '{"private":true,"type":"module"}');
  await writeFile(join(app, "first.js"), FIRST_USE);
  const { AGENT_MEMORY_BIN: _, ...env } = process.env;
  const options: ExecFileOptions = { cwd: app, env };
  // The packages of other platforms can't be had offline, and are optional.
  await execute("npm", ["install", "--offline", "--no-audit", "--no-fund", ...tarballs], options);
  assert.deepEqual(
    (await readdir(join(app, "node_modules"))).filter((name) => !name.startsWith(".")),
    ["@agent-memory", "agent-memory"],
  );
  // Nothing else on the path can be started, except the shell.
  const { stdout } = await execute(process.execPath, ["first.js"], { ...options, env: { ...env, PATH: "/bin" } });
  assert.equal(stdout, "I adopted a cat\n");
});

test("a platform that is not known is refused", async (t) => {
  await assert.rejects(execute(process.execPath, [PACK, await temporaryFolder(t), "amiga-m68k", process.execPath]), { code: 2 });
});
