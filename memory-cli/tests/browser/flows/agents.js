// What agents work on, and what a model would see.

import { flow } from "../browser.js";
import { empty, rest } from "../servers.js";

const reading = { withoutScripts: true };

flow("work that is held is listed with its lease", reading, async (visitor) => {
  const task = { holder: "kitchen", instance: "kitchen-1", leaseUntil: 4_102_444_800_000, runs: 2 };
  await rest("POST", "/v1/memories", { spaceId: "work-a", trigger: { text: "wash the cups" }, status: "running", metadata: { task } });
  await visitor.open("/");
  await visitor.follow("Work", visitor.page.getByRole("navigation", { name: "Console" }));
  await visitor.says("kitchen-1");
  await visitor.says("2 times");
  await visitor.page.getByRole("link").filter({ hasText: "wash the cups" }).first().click();
  await visitor.page.waitForURL("**/console/memory/*");
  await visitor.says("wash the cups");
});

flow("a question shows what the model would see", reading, async (visitor) => {
  await visitor.open("/");
  await visitor.follow("Compose", visitor.page.getByRole("navigation", { name: "Console" }));
  await visitor.send({ Question: "Where is our canoe?", "Asked by the user": "ana" }, "Compose");
  await visitor.page.getByRole("heading", { name: "Providers", exact: true }).waitFor();
  await visitor.says("ana: Where is our canoe?");
});

flow("a server without an agent says how to have one", { ...reading, server: empty }, async (visitor) => {
  await visitor.open("/console/compose");
  await visitor.says("serve --agent FILE");
});
