//! The server that all tests of a program share.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use super::missing::Missing;
use super::variable;

/// A server that all tests of a program share, in namespaces of their own. It ends when its last clone is dropped.
///
/// It is found or started: the URL in `MEMORY_TEST_<ENGINE>_URL`; else a container of the image in `MEMORY_TEST_<ENGINE>_IMAGE`, or of the
/// default image; else the binaries of this machine. An image that is named is used or missing, and never replaced by another server.
///
/// Starting a server blocks, so it must not be done on a thread of an asynchronous runtime that has other work meanwhile.
#[derive(Debug, Clone)]
pub struct TestServer {
    url: String,
    /// The guard that ends the server when it is dropped; `None` for a server that runs elsewhere.
    _guard: Option<Arc<dyn Debug + Send + Sync>>,
}

impl TestServer {
    /// The URL of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn new(url: String, guard: impl Debug + Send + Sync + 'static) -> Self {
        Self { url, _guard: Some(Arc::new(guard)) }
    }

    pub(super) fn find(
        engine: &'static str,
        usual_image: &str,
        in_container: fn(&str) -> Result<Self, Box<dyn Error>>,
        local: fn() -> Result<Self, Missing>,
    ) -> Result<Self, Missing> {
        let name_of = |what| format!("MEMORY_TEST_{}_{what}", engine.to_uppercase());
        let (url_variable, image_variable) = (name_of("URL"), name_of("IMAGE"));
        if let Some(url) = variable(&url_variable) {
            return Ok(Self { url, _guard: None });
        }
        let named = variable(&image_variable);
        let image = named.as_deref().unwrap_or(usual_image);
        let no_container = match in_container(image) {
            Ok(server) => return Ok(server),
            Err(error) => format!("no container of {image} starts ({error})"),
        };
        if named.is_some() {
            return Err(Missing::new(engine, format!("{image_variable} is set, but {no_container}")));
        }
        local().map_err(|missing| {
            Missing::new(engine, format!("{url_variable} is not set; {no_container}; {}", missing.reason()))
        })
    }
}
