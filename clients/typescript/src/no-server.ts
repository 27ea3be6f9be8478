import { MemoryError } from "./error.js";

/** A server that this process has started. */
export interface Server {
  readonly url: string;
  readonly token: string;
  close(): Promise<void>;
}

/** What stands for `Memory.open` where no process can be started. */
export async function startServer(_database: string, _options?: object): Promise<Server> {
  throw new MemoryError("Unsupported", "Memory.open starts a process, which a browser can't; use Memory.connect with the URL of a server");
}
