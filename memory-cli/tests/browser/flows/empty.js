// The pages of an empty memory.

import { flow } from "../browser.js";
import { empty } from "../servers.js";

const nothing = { server: empty, isSeeded: false, withoutScripts: true };

flow("an empty ledger says so on every page", nothing, async (visitor) => {
  for (const [path, text] of [
    ["/", "No space holds a memory."],
    ["/console/memories", "No memories on this page."],
    ["/console/documents", "No collection holds a document."],
    ["/console/recall?text=anything", "Nothing answers."],
  ]) {
    await visitor.open(path);
    await visitor.says(text);
    await visitor.isAccessible();
  }
});
