// All flows, in one process and with one browser.

import "./flows/empty.js";
import "./flows/spaces.js";
import "./flows/memories.js";
import "./flows/memory.js";
import "./flows/documents.js";
import "./flows/recall.js";
import "./flows/engine.js";
import "./flows/live.js";
import "./flows/agents.js";
import "./flows/login.js";
import "./flows/failures.js";
import "./flows/keyboard.js";
import "./flows/hostile.js";
import "./flows/pages.js";
import "./flows/write.js";
