import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

test("the generated types are those of the server's document of today", async () => {
  const types: string = "../npm/types.mjs";
  const { generatedTypes } = (await import(types)) as { generatedTypes(): Promise<string> };
  assert.equal(await readFile(new URL("../src/openapi.ts", import.meta.url), "utf8"), await generatedTypes());
});
