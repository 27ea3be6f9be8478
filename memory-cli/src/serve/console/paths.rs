//! The paths of the console.

/// The first page, which shows the spaces.
pub(super) const HOME: &str = "/";
pub(super) const MEMORIES: &str = "/console/memories";
pub(super) const MEMORY: &str = "/console/memory";
pub(super) const DOCUMENTS: &str = "/console/documents";
pub(super) const DOCUMENT: &str = "/console/document";
pub(super) const PROMPT: &str = "/console/prompt";
pub(super) const RECALL: &str = "/console/recall";
pub(super) const COMPOSE: &str = "/console/compose";
pub(super) const WORK: &str = "/console/work";
pub(super) const LIVE: &str = "/console/live";
pub(super) const ENGINE: &str = "/console/engine";
pub(super) const DOCTOR: &str = "/console/doctor";
pub(super) const LOGIN: &str = "/console/login";
pub(super) const LOGOUT: &str = "/console/logout";
pub(super) const STYLE: &str = "/console/style.css";
pub(super) const SCRIPT: &str = "/console/htmx.js";

/// The prefix of all paths that change records.
pub(super) const CHANGE: &str = "/console/change/";

pub(super) const CHANGE_MEMORY: &str = "/console/change/memory";
pub(super) const CHANGE_MEMORIES: &str = "/console/change/memories";
pub(super) const CHANGE_DOCUMENT: &str = "/console/change/document";
pub(super) const CHANGE_DOCUMENTS: &str = "/console/change/documents";
pub(super) const CHANGE_PROMPT: &str = "/console/change/prompt";

/// Whether a path belongs to the console.
pub(super) fn is_console(path: &str) -> bool {
    path == HOME || path == "/console" || path.starts_with("/console/")
}
