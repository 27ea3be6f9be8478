import { InvalidInputError, NotFoundError } from "./error.js";
import type { Expiry, MemoryPatch, NewDocumentOf, NewMemory, Vector } from "./types.js";

/** The answer, or `undefined` for `NotFound`. */
export async function found(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** The query of the page at a cursor, without an offset. */
export function following<Q extends { readonly cursor?: string; readonly offset?: number }>(query: Q, cursor: string): Q {
  const { offset: _, ...rest } = query;
  return { ...rest, cursor } as Q;
}

/** A record in the form of the server, with times in milliseconds and its vector as JSON. */
export function written<R extends Expiry & { readonly createdAt?: number | Date; readonly vector?: Vector }>(record: R): object {
  const { createdAt, expiresIn, expiresAt, ...rest } = record;
  const expiry = expiryOf(expiresIn, expiresAt);
  return {
    ...withVector(rest),
    ...(createdAt === undefined ? {} : { createdAt: Number(createdAt) }),
    ...(expiry === undefined ? {} : { expiresAt: expiry }),
  };
}

/** The record with the numbers of its vector in an array: a `Float32Array` would be an object in JSON. */
export function withVector<R extends { readonly vector?: Vector | undefined }>(record: R): object {
  const { vector } = record;
  return vector === undefined || typeof vector === "string" ? record : { ...record, vector: Array.from(vector) };
}

/** The time of an expiry in milliseconds, computed before the first attempt, so that retries have the same. */
function expiryOf(expiresIn: number | undefined, expiresAt: unknown): number | undefined {
  if (expiresIn === undefined && expiresAt === undefined) return undefined;
  if (expiresIn !== undefined && expiresAt !== undefined) {
    throw new InvalidInputError("expiresIn and expiresAt can't be combined: leave one out");
  }
  const time = expiresIn === undefined ? Number(expiresAt) : Date.now() + Math.ceil(expiresIn);
  // In JSON it would be null, which means never.
  if (!Number.isFinite(time)) throw new InvalidInputError("an expiry must be a number of milliseconds, or a Date");
  return time;
}

/** A patch in the form of the server, with its expiry in milliseconds. */
export function patched(patch: MemoryPatch): object {
  const { expiresIn, expiresAt, ...rest } = patch;
  if (expiresIn === undefined && (expiresAt === undefined || expiresAt === "clear")) {
    return expiresAt === undefined ? rest : { ...rest, expiresAt };
  }
  return { ...rest, expiresAt: { set: expiryOf(expiresIn, typeof expiresAt === "object" ? expiresAt.set : expiresAt) } };
}

/** A query in the form of a request body: lists for what may have several values, and times in milliseconds. */
export function selected(query: object): object {
  refuseEmpty(query);
  const shown = (name: string, value: unknown) => {
    if (NAMED.has(name)) return [value].flat();
    return value instanceof Date ? value.getTime() : value;
  };
  const parts = Object.entries(query).filter(([, value]) => value !== undefined);
  return Object.fromEntries(parts.map(([name, value]) => [name, shown(name, value)]));
}

/** Refuses an empty list, which the server would treat as absent, except for `exclude`, where that is right. */
export function refuseEmpty(lists: object): void {
  for (const [name, value] of Object.entries(lists)) {
    if (Array.isArray(value) && value.length === 0 && name !== "exclude") {
      throw new InvalidInputError(`${name} is empty: name one, or leave it out`);
    }
  }
}

const NAMED = new Set(["space", "under", "prefix", "glob", "regex", "status", "exclude"]);

export function keyed(memory: NewMemory): object {
  return { ...written(memory), idempotencyKey: memory.idempotencyKey ?? crypto.randomUUID() };
}

export function identified(document: NewDocumentOf): NewDocumentOf {
  return { ...document, id: crypto.randomUUID(), expect: "absent" };
}

export function expecting(document: NewDocumentOf): object {
  const { expect } = document;
  return { ...written(document), ...(typeof expect === "number" ? { expect: { revision: expect } } : {}) };
}

export function memoryPath(id: string): string {
  if (!/^[0-9a-f-]{36}$/i.test(id)) throw new InvalidInputError("the id of a memory must be a UUID");
  return `/v1/memories/${id}`;
}
