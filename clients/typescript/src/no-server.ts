import { MemoryError } from "./error.js";

/** A server that this process has started; never made where processes can't be started. */
export interface Server {
  readonly url: string;
  readonly token: string;
  close(): Promise<void>;
}

/** Replaces the start of a server where no process can be started, such as in a browser. */
export async function startServer(_database: string, _options?: object): Promise<Server> {
  throw new MemoryError("Unsupported", "Memory.open starts a process, which a browser can't; use Memory.connect with the URL of a server");
}
