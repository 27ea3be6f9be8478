import Anthropic from "@anthropic-ai/sdk";
import type { Memory } from "agent-memory";
import { MemoryFiles, memoryTool } from "agent-memory/anthropic";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { message } from "./models.js";
import { openMemory, scripted } from "./support.js";

async function files(t: TestContext, memory?: Memory): Promise<MemoryFiles> {
  return new MemoryFiles(memory ?? (await openMemory(t)), { namespace: ["app", "ana"] });
}

const DOES_NOT_EXIST = "Please provide a valid path.";

test("view shows files with their lines, and directories with their sizes", async (t) => {
  const tool = await files(t);
  const listed = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n";
  assert.equal(await tool.view({ command: "view", path: "/memories" }), `${listed}0B\t/memories`);
  const lines = Array.from({ length: 101 }, (_, line) => `line ${line + 1}`).join("\n");
  for (const [path, file_text] of [
    ["/memories/notes.txt", lines],
    ["/memories/a/b.txt", "é".repeat(1_024)],
    ["/memories/a/c/d.txt", "x".repeat(1_500)],
    ["/memories/a/c/e/f.txt", "deep"],
    ["/memories/.hidden", "1"],
    ["/memories/node_modules/x", "2"],
    ["/memories/a/100%_!.txt", ""],
  ] as const) {
    assert.equal(await tool.create({ command: "create", path, file_text }), `File created successfully at: ${path}`);
  }
  assert.equal(
    await tool.view({ command: "view", path: "/memories/" }),
    `${listed}4.3K\t/memories\n3.5K\t/memories/a/\n0B\t/memories/a/100%_!.txt\n2K\t/memories/a/b.txt\n1.5K\t/memories/a/c/\n800B\t/memories/notes.txt`,
  );
  assert.match(
    await tool.view({ command: "view", path: "/memories/a/c" }),
    /in \/memories\/a\/c, .*:\n1.5K\t\/memories\/a\/c\n1.5K\t\/memories\/a\/c\/d.txt\n4B\t\/memories\/a\/c\/e\/\n4B\t\/memories\/a\/c\/e\/f.txt$/s,
  );
  assert.equal(
    await tool.view({ command: "view", path: "/memories/notes.txt", view_range: [99, -1] }),
    "Here's the content of /memories/notes.txt with line numbers:\n    99\tline 99\n   100\tline 100\n   101\tline 101",
  );
  assert.match(await tool.view({ command: "view", path: "/memories/notes.txt", view_range: [2, 3] }), /:\n {5}2\tline 2\n {5}3\tline 3$/);
  await assert.rejects(tool.view({ command: "view", path: "/memories/b" }), {
    message: `The path /memories/b does not exist. ${DOES_NOT_EXIST}`,
  });
  await tool.create({ command: "create", path: "/memories/long", file_text: "\n".repeat(999_999) });
  await assert.rejects(tool.view({ command: "view", path: "/memories/long" }), {
    message: "File /memories/long exceeds maximum line limit of 999,999 lines.",
  });
});

test("create never overwrites", async (t) => {
  const tool = await files(t);
  await tool.create({ command: "create", path: "/memories/a/b", file_text: "1" });
  for (const path of ["/memories/a/b", "/memories/a", "/memories"]) {
    await assert.rejects(tool.create({ command: "create", path, file_text: "2" }), { message: `Error: File ${path} already exists` });
  }
  await assert.rejects(tool.create({ command: "create", path: "/memories/a/b/c", file_text: "" }), {
    message: "Error: The path /memories/a/b is not a directory",
  });
  const racing = await Promise.allSettled(
    Array.from({ length: 8 }, (_, index) => tool.create({ command: "create", path: "/memories/race", file_text: `${index}` })),
  );
  assert.equal(racing.filter(({ status }) => status === "fulfilled").length, 1);
});

test("str_replace changes one place, and shows it", async (t) => {
  const tool = await files(t);
  const path = "/memories/preferences.txt";
  await tool.create({ command: "create", path, file_text: "one\ntwo\nthree\nfour\nfive\ntwo again\n$& six" });
  assert.equal(
    await tool.str_replace({ command: "str_replace", path, old_str: "three\nfour", new_str: "3\n$&4" }),
    "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n" +
      "     1\tone\n     2\ttwo\n     3\t3\n     4\t$&4\n     5\tfive\n     6\ttwo again",
  );
  await assert.rejects(tool.str_replace({ command: "str_replace", path, old_str: "two", new_str: "" }), {
    message: "No replacement was performed. Multiple occurrences of old_str `two` in lines: 2, 6. Please ensure it is unique",
  });
  for (const old_str of ["absent", ""]) {
    await assert.rejects(tool.str_replace({ command: "str_replace", path, old_str, new_str: "" }), {
      message: `No replacement was performed, old_str \`${old_str}\` did not appear verbatim in ${path}.`,
    });
  }
  const full = "/memories/full";
  await tool.create({ command: "create", path: full, file_text: "a\n".repeat(1 << 19) });
  await assert.rejects(tool.str_replace({ command: "str_replace", path: full, old_str: "a", new_str: "" }), {
    message: /in lines: 1, .*, 100\. Please/,
  });
  for (const missing of ["/memories/absent", "/memories"]) {
    await assert.rejects(tool.str_replace({ command: "str_replace", path: missing, old_str: "a", new_str: "" }), {
      message: `Error: The path ${missing} does not exist. ${DOES_NOT_EXIST}`,
    });
  }
});

test("insert takes each line from the first to behind the last", async (t) => {
  const tool = await files(t);
  const path = "/memories/todo.txt";
  await tool.create({ command: "create", path, file_text: "a\nb" });
  for (const [insert_line, insert_text] of [
    [2, "end\n"],
    [0, "start"],
    [1, "\n"],
  ] as const) {
    assert.equal(await tool.insert({ command: "insert", path, insert_line, insert_text }), `The file ${path} has been edited.`);
  }
  assert.match(await tool.view({ command: "view", path }), /:\n {5}1\tstart\n {5}2\t\n {5}3\ta\n {5}4\tb\n {5}5\tend$/);
  for (const insert_line of [-1, 6, 1.5]) {
    await assert.rejects(tool.insert({ command: "insert", path, insert_line, insert_text: "" }), {
      message: `Error: Invalid \`insert_line\` parameter: ${insert_line}. It should be within the range of lines of the file: [0, 5]`,
    });
  }
  await assert.rejects(tool.insert({ command: "insert", path: "/memories/x", insert_line: 0, insert_text: "" }), {
    message: "Error: The path /memories/x does not exist",
  });
});

test("racing edits of one file all survive", async (t) => {
  const memory = await openMemory(t);
  const path = "/memories/race";
  const tools = await Promise.all(Array.from({ length: 8 }, () => files(t, memory)));
  await tools[0]?.create({ command: "create", path, file_text: "" });
  await Promise.all(tools.map((tool, index) => tool.insert({ command: "insert", path, insert_line: 0, insert_text: `line ${index}` })));
  const shown = (await tools[0]?.view({ command: "view", path })) ?? "";
  for (const index of tools.keys()) assert.ok(shown.includes(`line ${index}`), shown);
});

test("an edit of a file that is renamed meanwhile is not lost", async (t) => {
  const memory = await openMemory(t);
  const [one, other] = [await files(t, memory), await files(t, memory)];
  for (let round = 0; round < 8; round += 1) {
    const [path, new_path] = [`/memories/${round}`, `/memories/new/${round}`];
    await one.create({ command: "create", path, file_text: "first" });
    const [renamed, edited] = await Promise.allSettled([
      one.rename({ command: "rename", old_path: path, new_path }),
      other.insert({ command: "insert", path, insert_line: 1, insert_text: "second" }),
    ]);
    assert.equal(renamed.status, "fulfilled");
    const shown = await one.view({ command: "view", path: new_path });
    assert.equal(shown.includes("second"), edited.status === "fulfilled", shown);
    await assert.rejects(one.view({ command: "view", path }));
  }
});

test("delete and rename take files and directories", async (t) => {
  const tool = await files(t);
  for (const path of ["/memories/a/b", "/memories/a/c/d", "/memories/ab", "/memories/A"])
    await tool.create({ command: "create", path, file_text: path });
  const rename = (old_path: string, new_path: string) => tool.rename({ command: "rename", old_path, new_path });
  assert.equal(await rename("/memories/ab", "/memories/new/ab"), "Successfully renamed /memories/ab to /memories/new/ab");
  assert.equal(await rename("/memories/a", "/memories/z"), "Successfully renamed /memories/a to /memories/z");
  assert.match(await tool.view({ command: "view", path: "/memories/z/c/d" }), /\t\/memories\/a\/c\/d$/);
  for (const [old_path, new_path, message] of [
    ["/memories/ab", "/memories/y", "Error: The path /memories/ab does not exist"],
    ["/memories/A", "/memories/z", "Error: The destination /memories/z already exists"],
    ["/memories/A", "/memories/z/b", "Error: The destination /memories/z/b already exists"],
    ["/memories/A", "/memories", "Error: The destination /memories already exists"],
    ["/memories/z", "/memories/z/e", "Error: The path /memories/z/e is below /memories/z"],
    ["/memories", "/memories/y", "Error: Cannot rename the /memories directory itself"],
  ] as const) {
    await assert.rejects(rename(old_path, new_path), { message });
  }
  assert.equal(await tool.delete({ command: "delete", path: "/memories/z" }), "Successfully deleted /memories/z");
  assert.equal(await tool.delete({ command: "delete", path: "/memories/A" }), "Successfully deleted /memories/A");
  await assert.rejects(tool.delete({ command: "delete", path: "/memories/z" }), { message: "Error: The path /memories/z does not exist" });
  await assert.rejects(tool.delete({ command: "delete", path: "/memories" }), {
    message: "Error: Cannot delete the /memories directory itself",
  });
  assert.match(
    await tool.view({ command: "view", path: "/memories" }),
    /:\n12B\t\/memories\n12B\t\/memories\/new\/\n12B\t\/memories\/new\/ab$/,
  );
});

test("no path leads out of the root, or into the files of others", async (t) => {
  const memory = await openMemory(t);
  const tool = await files(t, memory);
  for (const path of [
    "/etc/passwd",
    "memories/a",
    "/memoriesa",
    "",
    "/memories/../a",
    "/memories/a/../../b",
    "/memories/%2e%2e/a",
    "/memories/..%2fa",
    "/memories/..\\a",
    "/memories/a\u0000",
    `/memories${"/a".repeat(21)}`,
  ]) {
    for (const call of [
      tool.view({ command: "view", path }),
      tool.create({ command: "create", path, file_text: "" }),
      tool.delete({ command: "delete", path }),
      tool.rename({ command: "rename", old_path: "/memories/a", new_path: path }),
    ]) {
      await assert.rejects(call, { kind: "InvalidInput" }, path);
    }
  }
  await tool.create({ command: "create", path: "/memories/secret", file_text: "" });
  const other = new MemoryFiles(memory, { namespace: ["app", "ana", "2"] });
  await assert.rejects(other.view({ command: "view", path: "/memories/secret" }), { message: /does not exist/ });
  assert.match(await other.view({ command: "view", path: "/memories" }), /:\n0B\t\/memories$/);
});

test("a whole session of the official package keeps what its model writes", async (t) => {
  const memory = await openMemory(t);
  const call = (id: string, input: object) => ({ type: "tool_use", id, name: "memory", input });
  const path = "/memories/pets.md";
  const { url, seen } = await scripted(
    t,
    message([call("1", { command: "view", path: "/memories" })], "tool_use"),
    message([call("2", { command: "create", path, file_text: "Ana has a cat" })], "tool_use"),
    message([call("3", { command: "create", path, file_text: "again" }), call("4", { command: "view", path: "/etc" })], "tool_use"),
    message([{ type: "text", text: "Noted." }]),
  );
  const client = new Anthropic({ apiKey: "none", baseURL: url });
  const answer = await client.beta.messages.toolRunner({
    model: "scripted",
    max_tokens: 100,
    messages: [{ role: "user", content: "I have a cat" }],
    tools: [memoryTool(memory, { namespace: ["app", "ana"] })],
  });
  assert.deepEqual(answer.content, [{ type: "text", text: "Noted." }]);
  const sent = seen.map(({ body }) => JSON.parse(body) as { tools: unknown[]; messages: { content: unknown }[] });
  assert.deepEqual(sent[0]?.tools, [{ type: "memory_20250818", name: "memory" }]);
  const results = sent.map(({ messages }) => messages.at(-1)?.content as { content: unknown; is_error?: boolean }[]).slice(1);
  assert.match(JSON.stringify(results[0]), /Here're the files and directories/);
  assert.match(JSON.stringify(results[1]), /File created successfully at: \/memories\/pets.md/);
  assert.deepEqual(
    results[2]?.map(({ content, is_error }) => [content, is_error]),
    [
      ["Error: File /memories/pets.md already exists", true],
      ["Error: Path must start with /memories, got: /etc", true],
    ],
  );
  assert.match(await (await files(t, memory)).view({ command: "view", path }), /\n {5}1\tAna has a cat$/);
});
