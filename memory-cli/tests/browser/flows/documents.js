// Collections and documents.

import assert from "node:assert/strict";
import { flow } from "../browser.js";

const reading = { withoutScripts: true };

flow("a document is found by its collection", reading, async (visitor, { documents }) => {
  await visitor.open("/console/documents");
  await visitor.follow("notes");
  assert.deepEqual((await visitor.column(1)).sort(), documents.notes.map(([id]) => id).sort());
  await visitor.follow("people/chloe");
  await visitor.heading("Document");
  await visitor.says("Chloe is allergic to nuts.");
});

flow("the versions of a document stand side by side", reading, async (visitor) => {
  await visitor.open("/console/document?collection=notes&id=people/ana");
  const versions = visitor.page.locator(".versions");
  assert.deepEqual(await versions.getByRole("rowheader").allTextContents(), ["Content", "Metadata"]);
  assert.deepEqual(await versions.locator("del").first().textContent(), "Ana keeps the tomatoes. She has a cat named Miso.");
  assert.ok((await versions.locator("ins").first().textContent()).includes("two cats, Miso and Udon"));
});

flow("documents are narrowed by space, words and condition", reading, async (visitor) => {
  await visitor.open("/console/documents?collection=notes");
  await visitor.send({ "Space with all below it": "agent-ada-people" }, "Show");
  assert.deepEqual((await visitor.column(1)).sort(), ["people/ana", "people/ben", "people/chloe"]);
  await visitor.send({ "One of these words": "nuts boats" }, "Show");
  assert.deepEqual((await visitor.column(1)).sort(), ["people/ben", "people/chloe"]);
  await visitor.send({ "Condition, as in metadata.topic = 'rust'": "metadata.topic = 'ben'" }, "Show");
  assert.deepEqual(await visitor.column(1), ["people/ben"]);
});

flow("a collection of many documents has pages", reading, async (visitor) => {
  await visitor.open("/console/documents?collection=journal");
  await visitor.send({ Order: "Oldest first" }, "Show");
  const first = await visitor.column(1);
  await visitor.follow("Next page");
  assert.deepEqual([first.length, first[0], (await visitor.column(1)).at(-1)], [50, "day-00", "day-54"]);
  await visitor.follow("All collections");
  await visitor.says("Collections");
});

flow("the space of a document leads to the documents of that space", reading, async (visitor) => {
  await visitor.open("/console/document?collection=notes&id=places/lake");
  await visitor.follow("agent-ada-places");
  assert.deepEqual((await visitor.column(1)).sort(), ["places/greenhouse", "places/lake"]);
});
