// The servers that browser.rs has started, by what the flows need of them.

function address(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: these flows are run by memory-cli/tests/browser.rs`);
  return value;
}

/** Without tokens: every user of the machine may read everything. It has the ledger of the seed. */
export const open = address("MEMORY_CONSOLE_OPEN");
/** The same ledger, with tokens. */
export const closed = address("MEMORY_CONSOLE_CLOSED");
/** The same ledger, with --no-console. */
export const without = address("MEMORY_CONSOLE_WITHOUT");
/** The same ledger, with --console-write. */
export const writable = address("MEMORY_CONSOLE_WRITABLE");
/** An empty ledger. */
export const empty = address("MEMORY_CONSOLE_EMPTY");

/** Tokens of the closed server. */
export const tokens = { all: "runtime-0123456789abcdef", some: "model-0123456789abcdef" };

/** Sends a request to REST, and returns the server's answer. */
export async function rest(method, path, body) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(open + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 500)}`);
  return text === "" ? undefined : JSON.parse(text);
}
