// Writes each example of the README as a program to tests/examples, where the tests compile and run it.
import { mkdir, readFile, writeFile } from "node:fs/promises";

const folder = new URL("../tests/examples/", import.meta.url);
await mkdir(folder, { recursive: true });
const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
const examples = [...readme.matchAll(/^```ts\n([^]*?)^```$/gm)];
await Promise.all(examples.map(([, code], index) => writeFile(new URL(`${index + 1}.ts`, folder), code)));
