import { InvalidInputError } from "./error.js";

/** Any JSON. A whole number that a double can't hold exactly is a `bigint`, in both directions. */
export type Json = string | number | bigint | boolean | null | readonly Json[] | { readonly [key: string]: Json | undefined };

/** A JSON object. */
export type JsonObject = { readonly [key: string]: Json | undefined };

/** The longest whole number that is read exactly, in characters; a longer one is read as the nearest double. */
const LONGEST_INTEGER = 1_000;

/** Parses JSON. Whole numbers beyond 2^53 become `bigint`, all others the nearest double. */
export function parseJson(text: string): Json {
  // A whole number that a double can't hold has at least 16 digits.
  if (!/\d{16}/.test(text)) return JSON.parse(text) as Json;
  const mark = freshMark();
  return JSON.parse(withMarkedIntegers(text, mark), (_, value: unknown) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  ) as Json;
}

/** Serialises to JSON. A `bigint` becomes a number with all its digits. Refuses NaN and the infinities, which JSON lacks. */
export function writeJson(value: unknown): string {
  const mark = freshMark();
  let isMarked = false;
  const text = JSON.stringify(value, (_, part: unknown) => {
    if (typeof part === "number" && !Number.isFinite(part)) throw new InvalidInputError(`JSON has no ${part}`);
    if (typeof part !== "bigint") return part;
    isMarked = true;
    return `${mark}${part}`;
  });
  if (text === undefined) throw new InvalidInputError(`JSON has no ${typeof value}`);
  return isMarked ? text.replace(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1") : text;
}

/** The text with each whole number that a double can't hold replaced by a string of a mark and its digits. */
function withMarkedIntegers(text: string, mark: string): string {
  const number = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
  let [marked, copied, at] = ["", 0, 0];
  while (at < text.length) {
    if (text[at] === '"') {
      at = endOfString(text, at);
      continue;
    }
    number.lastIndex = at;
    const match = number.exec(text);
    if (match === null) {
      at += 1;
      continue;
    }
    const [token, fraction, exponent] = match;
    const isWhole = fraction === undefined && exponent === undefined;
    if (isWhole && token.length <= LONGEST_INTEGER && !Number.isSafeInteger(Number(token))) {
      marked += `${text.slice(copied, at)}"${mark}${token}"`;
      copied = at + token.length;
    }
    at += token.length;
  }
  return marked + text.slice(copied);
}

/** The index after the string that begins at a quote. */
function endOfString(text: string, begin: number): number {
  let end = begin;
  do {
    end = text.indexOf('"', end + 1);
    if (end === -1) return text.length;
  } while (isEscaped(text, end));
  return end + 1;
}

/** Whether an odd number of backslashes precedes an index. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first -= 1;
  return (at - first) % 2 === 1;
}

/** A random text that no caller can guess, so that no string can be made to begin with it. */
function freshMark(): string {
  return `integer-${crypto.randomUUID()}:`;
}
