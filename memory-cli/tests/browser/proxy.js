// A proxy in front of a server, which answers by itself while that server is gone.

import { createServer, request } from "node:http";

/** Starts one on a free port. */
export async function proxyOf(server) {
  const proxy = new ServerProxy(server);
  await proxy.listen();
  return proxy;
}

class ServerProxy {
  #server;
  #listener = createServer((asked, answer) => this.#pass(asked, answer));
  #isGone = false;
  /** The answers that the server has not started yet. */
  #open = new Set();

  constructor(server) {
    this.#server = server;
  }

  listen() {
    return new Promise((resolve) => this.#listener.listen(0, "127.0.0.1", resolve));
  }

  get address() {
    return `http://127.0.0.1:${this.#listener.address().port}`;
  }

  /** From now on the server is gone, also for waiting clients. */
  loseServer() {
    this.#isGone = true;
    for (const answer of this.#open) refuse(answer);
  }

  findServer() {
    this.#isGone = false;
  }

  close() {
    this.#listener.closeAllConnections();
    return new Promise((resolve) => this.#listener.close(resolve));
  }

  #pass(asked, answer) {
    if (this.#isGone) return refuse(answer);
    const { method, url, headers } = asked;
    const passed = request(this.#server + url, { method, headers }, (response) => {
      this.#open.delete(answer);
      if (answer.writableEnded) return response.resume();
      answer.writeHead(response.statusCode, response.headers);
      response.pipe(answer);
    });
    this.#open.add(answer);
    answer.on("close", () => {
      this.#open.delete(answer);
      passed.destroy();
    });
    passed.on("error", () => answer.destroy());
    asked.pipe(passed);
  }
}

function refuse(answer) {
  answer.writeHead(502, { "content-type": "text/html" });
  answer.end("<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>");
}
