// Checks of every page.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { flow } from "../browser.js";
import { pages, pathOf } from "../pages.js";

/** The folder for pictures of the pages; none are made without it. */
const folder = process.env.MEMORY_SCREENSHOTS;

for (const page of pages) {
  flow(`the page ${page.name} is accessible in both themes, and fits a narrow screen`, { server: page.server }, async (visitor, ledger) => {
    await visitor.open(pathOf(page, ledger));
    await visitor.isAccessible();
    await visitor.fits(320);
    await visitor.isAccessible();
  });
}

if (folder) {
  for (const page of pages) {
    flow(`a picture of the page ${page.name}`, { server: page.server }, async (visitor, ledger) => {
      await mkdir(folder, { recursive: true });
      await visitor.open(pathOf(page, ledger));
      for (const colorScheme of ["light", "dark"]) {
        await visitor.page.emulateMedia({ colorScheme });
        await visitor.page.screenshot({ path: join(folder, `${page.name}-${colorScheme}.png`), fullPage: true });
      }
      if (page.isInReadme) {
        await visitor.page.emulateMedia({ colorScheme: "light" });
        await visitor.page.screenshot({ path: join(folder, `${page.name}-readme.png`) });
      }
      await visitor.page.setViewportSize({ width: 320, height: 640 });
      await visitor.page.screenshot({ path: join(folder, `${page.name}-narrow.png`), fullPage: true });
    });
  }
}
