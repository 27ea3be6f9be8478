// The console by the keyboard alone.

import assert from "node:assert/strict";
import { flow } from "../browser.js";
import { pages, pathOf } from "../pages.js";
import { closed, tokens } from "../servers.js";

/** More elements than any of these pages has. */
const STOPS = 400;

/** The focused element: its position among all focusable elements, and its outline. */
const focus = (visitor) =>
  visitor.page.evaluate(() => {
    const element = document.activeElement;
    const able = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")];
    const all = able.filter((element) => element.matches("summary") || !element.closest("details:not([open])"));
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const { top, bottom, left, right } = element.getBoundingClientRect();
    return {
      place: all.indexOf(element),
      count: all.length,
      text: element.textContent.trim().slice(0, 80),
      field: element.name,
      isMarked: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2,
      isOnScreen: bottom > 0 && right > 0 && top < innerHeight && left < innerWidth,
    };
  });

/** Presses Tab until the element with this text, or the field of this name, has the focus. */
async function tabTo(visitor, text) {
  for (let stop = 0; stop < STOPS; stop++) {
    await visitor.page.keyboard.press("Tab");
    const focused = await focus(visitor);
    if (focused.text === text || focused.field === text) return;
  }
  assert.fail(`${text} is out of reach`);
}

for (const page of pages) {
  flow(`the focus goes through the page ${page.name} in order, and is seen`, { server: page.server }, async (visitor, ledger) => {
    await visitor.open(pathOf(page, ledger));
    // A field may have the focus from the beginning.
    const begun = await focus(visitor);
    const first = Math.max(begun.place, -1) + 1;
    for (let expected = first; expected < Math.min(begun.count, first + 40); expected++) {
      await visitor.page.keyboard.press("Tab");
      const { place, isMarked, isOnScreen, text } = await focus(visitor);
      assert.deepEqual({ place, isMarked, isOnScreen }, { place: expected, isMarked: true, isOnScreen: true }, text);
    }
  });
}

flow("the skip link leads past the navigation", {}, async (visitor) => {
  await visitor.open("/console/memories");
  await visitor.page.keyboard.press("Tab");
  assert.equal((await focus(visitor)).text, "Skip to the content");
  await visitor.page.keyboard.press("Enter");
  assert.equal(await visitor.page.evaluate(() => document.activeElement.id), "main");
  await visitor.page.keyboard.press("Tab");
  assert.equal(await visitor.page.evaluate(() => document.activeElement.name), "space");
});

flow("a memory is found by the keyboard alone", {}, async (visitor) => {
  await visitor.open("/");
  await tabTo(visitor, "Memories");
  await visitor.press("Enter");
  await tabTo(visitor, "under");
  await visitor.page.keyboard.type("discord-greenhouse");
  await tabTo(visitor, "text");
  await visitor.page.keyboard.type("birthday");
  await visitor.press("Enter");
  const link = await visitor.page.locator("tbody tr").first().getByRole("link").nth(1).textContent();
  await tabTo(visitor, link.trim().slice(0, 80));
  await visitor.press("Enter");
  await visitor.heading("Memory");
  await visitor.says("pie is mandatory");
});

flow("who signs in needs no mouse", { server: closed }, async (visitor) => {
  await visitor.open("/console/login");
  // The field gets the focus by itself.
  await visitor.page.locator("#token:focus").waitFor();
  await visitor.page.keyboard.type(tokens.all);
  await visitor.press("Enter");
  await visitor.heading("Spaces");
  await tabTo(visitor, "Sign out");
  await visitor.press("Enter");
  await visitor.heading("Sign in");
});
