// Writes src/openapi.ts from what a server says of itself: node npm/generate.mjs, with AGENT_MEMORY_BIN or the binary on PATH.
import { writeFile } from "node:fs/promises";
import { generatedTypes } from "./types.mjs";

await writeFile(new URL("../src/openapi.ts", import.meta.url), await generatedTypes());
