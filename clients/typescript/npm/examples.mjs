// Writes each example of the README, the root README and the guide as a program to tests/examples, where the tests compile and run it.
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";

const folder = new URL("../tests/examples/", import.meta.url);
await mkdir(folder, { recursive: true });
const root = new URL("../../../", import.meta.url);
const chapters = (await readdir(new URL("docs/src/", root))).filter((name) => name.endsWith(".md")).sort();
const files = ["clients/typescript/README.md", "README.md", ...chapters.map((name) => `docs/src/${name}`)];
const texts = await Promise.all(files.map((name) => readFile(new URL(name, root), "utf8")));
const examples = texts.flatMap((text) => [...text.matchAll(/^```ts\n([^]*?)^```$/gm)]);
await Promise.all(examples.map(([, code], index) => writeFile(new URL(`${index + 1}.ts`, folder), code)));
