import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { test } from "node:test";
import { promisify } from "node:util";
import { message, response } from "./models.js";
import { scripted, serve, temporaryFolder } from "./support.js";

/** The output of each example of the README, and then of the root README and the guide, in their order. */
const EXPECTED = [
  /^{ text: 'I adopted a cat' }\n$/,
  /^sqlite\n$/,
  /^2 { seen: true, topic: 'pets' }\nguild1-general-ana-m1 { text: 'I adopted a cat' }\n\[ 'pets' \]\n$/,
  /^{ text: 'I adopted a cat' } true\n$/,
  /^\[ true \]\n{ text: 'The kitten sleeps' }\n$/,
  /^somebody else was faster\n$/,
  /^app\/user%2D1\/Zo%C3%AB%2Fa\n$/,
  /^\[ { type: 'text', text: 'Noted\.' } \]\n$/,
  /^Miso\.\n$/,
  /^\[ \[ true, '{"content":"Hi"}' \] \]\n$/,
  /^{ text: 'I adopted a cat' }\n$/,
];

test("the examples of the documentation run", async (t) => {
  const examples = new URL("examples/", import.meta.url);
  assert.equal((await readdir(examples)).length, EXPECTED.length);
  const server = await serve(t);
  const noted = message([{ type: "text", text: "Noted." }]);
  const miso = response("1", "Miso.");
  const { url } = await scripted(t, (seen, answer) => (seen.url.startsWith("/v1/messages") ? noted : miso)(seen, answer));
  const models = {
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: "none",
    OPENAI_BASE_URL: url,
    OPENAI_API_KEY: "none",
    OPENAI_AGENTS_DISABLE_TRACING: "1",
  };
  const env = { ...process.env, ...models, AGENT_MEMORY_SERVER: server.url, AGENT_MEMORY_TOKEN: server.token };
  for (const [index, expected] of EXPECTED.entries()) {
    await t.test(`example ${index + 1}`, async (t) => {
      const program = new URL(`${index + 1}.js`, examples).pathname;
      const { stdout } = await promisify(execFile)(process.execPath, [program], { cwd: await temporaryFolder(t), env });
      assert.match(stdout, expected);
    });
  }
});
