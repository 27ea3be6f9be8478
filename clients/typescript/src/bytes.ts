import type { Json } from "./json.js";

/** Encodes the bytes in a value as text, so that JSON can hold it. A member with the name of the mark gets one more dollar sign. */
export function packed(value: unknown): Json {
  if (value instanceof Uint8Array) return { $bytes: btoa(Array.from(value, (byte) => String.fromCharCode(byte)).join("")) };
  if (Array.isArray(value)) return value.map(packed);
  if (typeof value !== "object" || value === null) return value as Json;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [isMark(key) ? `$${key}` : key, packed(member)]));
}

/** Decodes a value that `packed` has encoded. */
export function unpacked(value: Json | undefined): unknown {
  if (Array.isArray(value)) return value.map(unpacked);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value);
  const [first] = members;
  if (first?.[0] === "$bytes") return Uint8Array.from(atob(String(first[1])), (character) => character.charCodeAt(0));
  return Object.fromEntries(members.map(([key, member]) => [isMark(key) ? key.slice(1) : key, unpacked(member)]));
}

function isMark(key: string): boolean {
  return /^\$+bytes$/.test(key);
}
