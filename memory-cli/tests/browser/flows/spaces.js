// The tree of spaces.

import assert from "node:assert/strict";
import { flow } from "../browser.js";

const reading = { withoutScripts: true };

/** The names of the level's spaces. */
const named = (visitor) => visitor.page.locator("tbody th > a, tbody th > bdi").allTextContents();
/** The row of a space that has others below it. */
const row = (visitor, space) => visitor.page.getByRole("row").filter({ has: visitor.page.getByRole("link", { name: space, exact: true }) });

flow("the tree of spaces opens level by level, and leads back", reading, async (visitor, { messages }) => {
  await visitor.open("/");
  await visitor.heading("Spaces");
  await visitor.follow("discord");
  await visitor.follow("discord-greenhouse");
  const levels = ["discord-greenhouse-garden", "discord-greenhouse-kitchen", "discord-greenhouse-lake"];
  assert.deepEqual((await named(visitor)).sort(), levels);
  await visitor.follow("discord-greenhouse-lake");
  const ofTheLake = messages.filter(({ spaceId }) => spaceId.startsWith("discord-greenhouse-lake-"));
  const counts = (await visitor.page.locator("tbody .number").allTextContents()).map(Number);
  assert.equal(counts.reduce((one, other) => one + other), ofTheLake.length);
  const trail = visitor.page.getByRole("navigation", { name: "Way to this space" });
  assert.deepEqual((await trail.getByRole("listitem").allTextContents()).slice(0, 3), ["All spaces", "discord", "discord-greenhouse"]);
  await visitor.follow("All spaces", trail);
  assert.ok((await named(visitor)).includes("rooms"));
});

flow("a space has the number of its memories, and the time of the newest", reading, async (visitor, { rooms }) => {
  await visitor.open("/");
  const newest = new Date(Math.max(...rooms.map(({ createdAt }) => createdAt))).toISOString();
  assert.equal(await row(visitor, "rooms").locator(".number").textContent(), String(rooms.length));
  assert.ok((await row(visitor, "rooms").locator("time").getAttribute("datetime")).startsWith(newest.slice(0, 19)));
});

flow("a number of memories leads to those memories", reading, async (visitor, { rooms }) => {
  await visitor.open("/");
  await visitor.follow(String(rooms.length), row(visitor, "rooms"));
  await visitor.heading("Memories");
  assert.equal(await visitor.page.getByLabel("Space with all below it").inputValue(), "rooms");
  assert.ok((await visitor.column(2)).every((space) => space.startsWith("rooms-")));
});

flow("a level of many spaces has pages", reading, async (visitor, { rooms }) => {
  await visitor.open("/?under=rooms");
  const first = await named(visitor);
  await visitor.follow("Next page");
  const second = await named(visitor);
  assert.deepEqual([...first, ...second].sort(), rooms.map(({ spaceId }) => spaceId).sort());
  await visitor.follow("First page");
  assert.deepEqual(await named(visitor), first);
});

flow("a space with none below it leads to its memories", reading, async (visitor) => {
  await visitor.open("/?under=rooms-r07");
  await visitor.says("No space lies below this one.");
  await visitor.follow("Memories of this space and all below it");
  await visitor.says("The inventory of room 7");
});
