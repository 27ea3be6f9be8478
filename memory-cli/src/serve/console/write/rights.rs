//! What a visitor may change, for the actions that a page offers. The call itself checks the rights again.

use memory_core::{Document, Memory, SpaceId};

use crate::collections::is_copied;
use crate::serve::console::visitor::Visitor;

pub(super) fn may_change_memory(visitor: &Visitor, memory: &Memory) -> bool {
    let access = &visitor.access;
    may_write(visitor, &memory.space_id)
        && access.check_ledger_write().is_ok()
        && access.check_metadata(&memory.metadata).is_ok()
}

/// Whether the visitor may change a document. Documents of reserved collections have internal formats, and no form.
pub(super) fn may_change_document(visitor: &Visitor, document: &Document) -> bool {
    may_remove_document(visitor, document) && !document.collection.is_reserved()
}

pub(super) fn may_remove_document(visitor: &Visitor, document: &Document) -> bool {
    may_write(visitor, &document.space_id)
        && visitor.access.check_collection(&document.collection).is_ok()
        && is_copied(&document.collection)
}

pub(super) fn may_erase(visitor: &Visitor, space: &SpaceId) -> bool {
    may_write(visitor, space) && visitor.access.check_erasure().is_ok()
}

pub(super) fn may_write_somewhere(visitor: &Visitor) -> bool {
    visitor.server.console_write && visitor.access.write_filter().is_ok()
}

fn may_write(visitor: &Visitor, space: &SpaceId) -> bool {
    visitor.server.console_write && visitor.access.check_write(space).is_ok()
}
