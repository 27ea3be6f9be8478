/** Functions on texts that the adapters use. */

/** The SHA-256 of a text in hexadecimal digits. */
export async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The first 100 indexes at which a text occurs in another one. The empty text occurs nowhere. */
export function placesOf(text: string, content: string): number[] {
  const places: number[] = [];
  let at = text === "" ? -1 : content.indexOf(text);
  while (at !== -1 && places.length < 100) {
    places.push(at);
    at = content.indexOf(text, at + text.length);
  }
  return places;
}

/** The number of the line that contains an index, from 1. */
export function lineOf(place: number, content: string): number {
  return content.slice(0, place).split("\n").length;
}

/** Splits a text into pieces of at most `size` UTF-16 units. No piece begins within a character. */
export function cut(text: string, size: number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length;) {
    const end = at + size;
    const splits = end < text.length && (text.charCodeAt(end) & 0xfc00) === 0xdc00;
    pieces.push(text.slice(at, splits ? end - 1 : end));
    at = splits ? end - 1 : end;
  }
  return pieces;
}
