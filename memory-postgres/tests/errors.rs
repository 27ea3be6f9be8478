//! The mapping of the driver's errors, without a server.

use memory_core::{ErrorKind, Outcome};

use error::{is_passing, native, native_write};

#[allow(dead_code)]
#[path = "../src/error.rs"]
mod error;

#[test]
fn a_lost_connection_leaves_a_write_unknown_and_a_read_not_done() {
    let lost = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
    let (read, write) = (native(lost()), native_write(lost()));
    assert_eq!((read.kind(), read.outcome()), (ErrorKind::Unavailable, Outcome::NotDone));
    assert_eq!((write.kind(), write.outcome()), (ErrorKind::Unavailable, Outcome::Unknown));
    assert!(read.is_retryable() && write.is_retryable() && is_passing(&read) && is_passing(&write));
}
