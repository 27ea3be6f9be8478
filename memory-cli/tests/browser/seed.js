// The ledger that the flows look at.

import { rest } from "./servers.js";

/** A text that must stay text wherever it is shown: markup, and a character that changes the direction of the text after it. */
export const HOSTILE = `<script>alert(1)</script>"'&\u202E<img src=x onerror=alert(1)><b>bold</b>`;

const DAY = 86_400_000;
const NEWEST = Date.UTC(2026, 10, 27, 18);
/** More memories than fit on a page of the timeline. */
const MESSAGES = 120;
const ROOMS = 60;
/** A history of more than one page. */
const EDITS = 13;

const SPEAKERS = ["ana", "ben", "chloe"];
const CHANNELS = ["garden", "kitchen", "lake"];
const SAID = [
  ["plants", "The tomatoes by the south wall need water every second evening."],
  ["boats", "The canoe has a leak below the rear seat, please don't take it out before it is mended."],
  ["pets", "I adopted a cat from the shelter. Her name is Miso, and she is afraid of the vacuum cleaner."],
  ["weather", "They expect rain from Thursday on, so we should pick the beans before that."],
  ["birthday", "My birthday is on March 14, pie is mandatory."],
  ["plans", "Can somebody open the greenhouse on Saturday morning? I am on a train until noon."],
  ["boats", "Two paddles are in the shed, the third one is still in my car."],
  ["food", "No nuts for Chloe: she told me last year that she is allergic to them."],
  ["plants", "The mint has taken over the whole bed again. I moved what was left of the parsley into a pot."],
  ["pets", "The cat was asleep in the greenhouse again. She knows how to open the door by now."],
  ["plans", "Next meeting is on December 3 at seven, at Ben's place."],
  ["weather", "Sunshine all day at the lake, the water had 19 degrees."],
];

/** The messages of the guild, the newest last. */
const messages = Array.from({ length: MESSAGES }, (_, place) => {
  const [topic, text] = SAID[place % SAID.length];
  const speaker = SPEAKERS[(place * 7) % 11 % SPEAKERS.length];
  const status = place % 40 === 39 ? "failed" : place >= MESSAGES - 5 ? "pending" : "completed";
  return {
    spaceId: `discord-greenhouse-${CHANNELS[place % CHANNELS.length]}-${speaker}-m${place}`,
    trigger: { speaker, text },
    metadata: { topic, message: place },
    status,
    createdAt: NEWEST - (MESSAGES - 1 - place) * (DAY / 6) - place * 61_000,
  };
});

const rooms = Array.from({ length: ROOMS }, (_, place) => ({
  spaceId: `rooms-r${String(place).padStart(2, "0")}`,
  trigger: { text: `The inventory of room ${place}` },
  metadata: { topic: "inventory" },
  status: "completed",
  createdAt: NEWEST - 200 * DAY + place,
}));

/** Fills the ledger, and returns the ids and spaces that the flows need. */
export async function seed() {
  const batch = (memories) => rest("POST", "/v1/memories/batch", { memories });
  await batch([...messages, ...rooms]);
  await batch([
    { spaceId: "guild1-model-a", trigger: { text: "for the model" }, createdAt: NEWEST - 300 * DAY },
    { spaceId: "guild1-other-b", trigger: { text: "for others" }, createdAt: NEWEST - 300 * DAY },
  ]);
  const ledger = {
    messages,
    rooms,
    changed: await change(),
    edited: await edit(),
    answered: await answer(),
    private: await store({ spaceId: "guild1-other-c", trigger: { text: "kept from the model" }, createdAt: 3 }),
    hostile: await store({
      spaceId: `hostile-${HOSTILE}`,
      trigger: { text: HOSTILE, [HOSTILE]: [HOSTILE] },
      context: { reply: HOSTILE },
      metadata: { [HOSTILE]: HOSTILE },
      idempotencyKey: HOSTILE,
      createdAt: 2,
    }),
    turned: await store({ spaceId: "hostile-bidi", trigger: { text: BIDI }, metadata: { note: BIDI }, createdAt: 1 }),
    long: await long(),
    documents: await documents(),
  };
  await embedded();
  return ledger;
}

/** Each character that changes the direction of a text, and none that ends it. */
export const BIDI = "\u202A\u202B\u202D\u202E\u2066\u2067\u2068\u200Fאבג abc \u061Cالسلام";

async function store(memory) {
  return (await rest("POST", "/v1/memories", memory)).id;
}

const patch = (id, body) => rest("PATCH", `/v1/memories/${id}`, body);

/** A memory that somebody has worked on. */
async function change() {
  const id = await store({
    spaceId: "discord-greenhouse-garden-ana-m200",
    trigger: { speaker: "ana", text: "Which of us has the key of the greenhouse?" },
    metadata: { topic: "plans", asked: 1, about: ["key", "greenhouse"] },
    createdAt: NEWEST + 60_000,
    idempotencyKey: "discord:1203",
  });
  await patch(id, { status: "running" });
  await patch(id, { context: { set: { reply: "Ben has it since Tuesday.", sources: 2 } }, status: "completed" });
  await patch(id, { metadata: { merge: { topic: "keys", answered: true } } });
  await patch(id, { context: { set: { reply: "Chloe has it since Friday.", sources: 3 } } });
  return id;
}

/** An agent's answer in a run, with the chain of its steps. */
async function answer() {
  const space = { spaceId: "edits-b", metadata: { author: "bot", run: "run-1", why: "it was asked" } };
  const message = (author, text, inReplyTo) => ({ author, room: "garden", source: "discord", text, inReplyTo });
  const question = await store({ ...space, trigger: message("ana", "Where is the watering can?"), createdAt: 6 });
  const item = { pluginId: "memory", timestamp: 7 };
  const context = [
    { ...item, id: "1", pluginId: "runtime", kind: "related", content: { ids: [question] } },
    { ...item, id: "2", kind: "result", action: "memory:query", content: { results: ["It is in the shed."] } },
    { ...item, id: "3", kind: "result", action: "say", pluginId: "discord", content: "Ben had it last." },
    ...Array.from({ length: 20 }, (_, place) => ({ ...item, id: `more${place}`, kind: "plan", content: { steps: [place] } })),
  ];
  return store({ ...space, trigger: message("bot", "Ben had it last.", question), context, createdAt: 8 });
}

/** Waits until the model has embedded all records that recall needs. */
async function embedded() {
  let unembedded;
  do ({ unembedded } = await rest("GET", "/v1/recall?text=kitten&under=discord-greenhouse"));
  while (unembedded !== 0);
}

async function edit() {
  const id = await store({ spaceId: "edits-a", trigger: { text: "edited often" }, createdAt: 5 });
  for (let place = 0; place < EDITS; place++) await patch(id, { context: { set: place } });
  return id;
}

/** More than ten megabytes in two lines: the largest trigger and context. */
async function long() {
  const id = await store({
    spaceId: "hostile-long",
    trigger: `<i>${"x".repeat((4 << 20) - 100)}`,
    context: `<i>${"y".repeat((8 << 20) - 100)}`,
    createdAt: 4,
  });
  return id;
}

async function documents() {
  const put = (document) => rest("POST", "/v1/documents", { documents: [document] });
  const notes = [
    ["people/ana", "Ana keeps the tomatoes. She has a cat named Miso."],
    ["people/ben", "Ben mends the boats and hosts the meetings."],
    ["people/chloe", "Chloe is allergic to nuts. She knows the lake."],
    ["places/greenhouse", "The greenhouse opens at nine. Its key hangs in the kitchen."],
    ["places/lake", "No canoe leaves the shore after a thunderstorm warning."],
  ];
  for (const [place, [id, content]] of notes.entries()) {
    const [, topic] = id.split("/");
    await put({
      collection: "notes",
      id,
      spaceId: `agent-ada-${id.split("/")[0]}`,
      content,
      metadata: { topic },
      createdAt: NEWEST - (10 - place) * DAY,
    });
  }
  await put({
    collection: "notes",
    id: "people/ana",
    spaceId: "agent-ada-people",
    content: "Ana keeps the tomatoes and the beans. She has two cats, Miso and Udon.",
    metadata: { topic: "ana", since: 2025 },
  });
  const filler = Array.from({ length: 55 }, (_, place) => ({
    collection: "journal",
    id: `day-${String(place).padStart(2, "0")}`,
    spaceId: "agent-ada-journal",
    content: `What happened on day ${place}.`,
    createdAt: NEWEST - (60 - place) * DAY,
  }));
  await rest("POST", "/v1/documents", { documents: filler });
  await put({ collection: "hostile", id: HOSTILE, spaceId: `hostile-${HOSTILE}`, content: HOSTILE, metadata: { [HOSTILE]: HOSTILE } });
  await put({ collection: "hostile", id: "long", spaceId: "hostile-long", content: `<i>${"z".repeat((1 << 20) - 3)}` });
  return { notes };
}
