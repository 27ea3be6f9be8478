// How the engine is.

import assert from "node:assert/strict";
import { flow } from "../browser.js";

flow("the engine tells its health and its counters", { withoutScripts: true }, async (visitor) => {
  await visitor.open("/");
  await visitor.follow("Engine", visitor.page.getByRole("navigation", { name: "Console" }));
  await visitor.heading("Engine");
  const names = await visitor.page.locator("dt").allTextContents();
  for (const name of ["Engine", "Version", "Durability", "Latency", "Embedding model"]) {
    assert.ok(names.includes(name), `${name} among ${names}`);
  }
  assert.ok((await visitor.page.getByRole("rowheader").count()) > 5);
});
