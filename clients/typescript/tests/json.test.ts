import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJson, writeJson } from "../dist/json.js";

test("whole numbers beyond 2^53 keep all their digits, in both directions", () => {
  const text = '{"a":9007199254740993,"b":[-18446744073709551615,1],"c":"9007199254740993","d":9007199254740991}';
  const value = parseJson(text);
  assert.deepEqual(value, { a: 9007199254740993n, b: [-18446744073709551615n, 1], c: "9007199254740993", d: 9007199254740991 });
  assert.equal(writeJson(value), text);
});

test("other numbers are the nearest double", () => {
  assert.deepEqual(
    parseJson("[1.0000000000000000000001,12345678901234567890.5,1234567890123456789e3,0.12345678901234567890]"),
    [1, 12345678901234567890.5, 1234567890123456789e3, 0.1234567890123456789],
  );
});

test("digits within strings are text", () => {
  for (const inner of ['\\"12345678901234567890', "\\\\", '\\\\\\" 12345678901234567890 \\\\', "12345678901234567890"]) {
    const text = `["${inner}",12345678901234567890,"${inner}"]`;
    const plain = JSON.parse(`"${inner}"`) as string;
    assert.deepEqual(parseJson(text), [plain, 12345678901234567890n, plain]);
    assert.equal(writeJson(parseJson(text)), text);
  }
});

test("a hostile number costs what it is long", () => {
  const digits = "9".repeat(4 << 20);
  assert.deepEqual(parseJson(`[${digits}.5,${digits}]`), [Infinity, Infinity]);
  assert.deepEqual(parseJson(`["${"\\\\".repeat(2 << 20)}",1234567890123456]`), ["\\".repeat(2 << 20), 1234567890123456]);
});

test("broken JSON stays broken", () => {
  for (const text of ["", "[1234567890123456789", '"1234567890123456789', "1234567890123456789,", "01234567890123456789"]) {
    assert.throws(() => parseJson(text), SyntaxError, text);
  }
});

test("what JSON lacks is refused", () => {
  for (const value of [Number.NaN, { a: [Infinity] }, undefined, () => 1]) assert.throws(() => writeJson(value), { kind: "InvalidInput" });
});
