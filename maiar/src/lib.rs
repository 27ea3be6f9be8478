#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

#[cfg(feature = "postgres")]
mod postgres;
mod record;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;

use memory_core::{Error, Result};

pub use record::{Record, Records};

/// Opens the database of a URL. The stream of a PostgreSQL server must be polled within a tokio runtime.
///
/// Fails with `InvalidInput` if no database has the scheme, or if its engine was not compiled in. No error quotes the URL.
pub fn open(url: &str) -> Result<Records> {
    match url.split_once(':') {
        #[cfg(feature = "sqlite")]
        Some(("sqlite", path)) => sqlite::read(path),
        #[cfg(not(feature = "sqlite"))]
        Some(("sqlite", _)) => Err(left_out("SQLite", "sqlite")),
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => Ok(postgres::read(url)),
        #[cfg(not(feature = "postgres"))]
        Some(("postgres" | "postgresql", _)) => Err(left_out("PostgreSQL", "postgres")),
        _ => Err(Error::invalid("the URL of a database of MAIAR must begin with sqlite: or postgres://")),
    }
}

#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
fn left_out(title: &str, feature: &str) -> Error {
    Error::invalid(format!("this program was built without {title}: build it with --features {feature}"))
}

#[cfg(test)]
mod tests {
    use memory_core::ErrorKind;

    use super::*;

    #[test]
    fn what_was_left_out_is_named_with_its_feature() {
        for (url, is_in, expected) in [
            ("sqlite:", cfg!(feature = "sqlite"), "--features sqlite"),
            ("postgres://app:xyzzy@host/db", cfg!(feature = "postgres"), "--features postgres"),
            ("mysql://app:xyzzy@host/db", false, "begin with sqlite: or postgres://"),
        ] {
            let refused = open(url).err();
            assert_eq!(refused.is_none(), is_in && url != "sqlite:", "{url}");
            if let (false, Some(error)) = (is_in, refused) {
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.message().ends_with(expected), "{error}");
            }
        }
    }
}
