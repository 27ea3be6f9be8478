// Each page of the console, in each of its states that looks different. What is added here is checked by axe in both themes, on a narrow
// screen and by the keyboard, and a picture is made of it.

import { HOSTILE } from "./seed.js";
import { closed, empty, writable } from "./servers.js";

/** `path` is the path of the page, or a function of the seed. `isInReadme`: the README shows its top. */
export const pages = [
  { name: "spaces", path: "/" },
  { name: "spaces-level", path: "/?under=discord-greenhouse" },
  { name: "spaces-of-documents", path: "/?collection=notes" },
  { name: "memories-by-pattern", path: "/console/memories?glob=discord-*-ben-*" },
  { name: "memories", path: "/console/memories?under=discord-greenhouse" },
  { name: "memories-narrowed", path: "/console/memories?under=discord-greenhouse&text=cat+canoe&status=completed", isInReadme: true },
  { name: "memory", path: ({ changed }) => `/console/memory/${changed}` },
  { name: "memory-with-chain", path: ({ answered }) => `/console/memory/${answered}` },
  { name: "collections", path: "/console/documents" },
  { name: "documents", path: "/console/documents?collection=notes" },
  { name: "document", path: "/console/document?collection=notes&id=people/ana" },
  { name: "recall", path: "/console/recall" },
  { name: "recall-hits", path: "/console/recall?text=Where+is+our+canoe%3F&under=discord-greenhouse&limit=3", isInReadme: true },
  { name: "recall-documents", path: "/console/recall?text=Who+has+a+cat%3F&collection=notes&limit=2" },
  { name: "work", path: "/console/work" },
  { name: "compose", path: "/console/compose?user=ana&text=Where+is+our+canoe%3F" },
  { name: "compose-without", path: "/console/compose", server: empty },
  { name: "live", path: "/console/live?under=discord-greenhouse" },
  { name: "engine", path: "/console/engine" },
  { name: "doctor", path: "/console/doctor" },
  { name: "edit", path: ({ changed }) => `/console/change/memory/${changed}`, server: writable },
  { name: "erase", path: ({ changed }) => `/console/change/memory/${changed}/erase`, server: writable },
  { name: "erase-many", path: "/console/change/memories?under=rooms", server: writable },
  { name: "login", path: "/console/login", server: closed },
  { name: "empty", path: "/", server: empty },
  { name: "hostile", path: ({ hostile }) => `/console/memory/${hostile}` },
  { name: "hostile-documents", path: `/console/documents?collection=hostile&text=${encodeURIComponent(HOSTILE)}` },
];

/** The path of a page. */
export const pathOf = ({ path }, ledger) => (typeof path === "function" ? path(ledger) : path);
