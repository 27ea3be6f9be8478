//! A server in a container.

use std::error::Error;
use std::fmt;

use testcontainers::core::IntoContainerPort;
use testcontainers::runners::SyncRunner;
use testcontainers::{GenericImage, ImageExt};

use super::process::holds;

/// A running container. It is removed when dropped, and when a signal ends this program.
pub(super) struct Container {
    container: testcontainers::Container<GenericImage>,
    host: String,
    port: u16,
}

impl Container {
    /// Starts an image, `name:tag`, whose server listens on `port`, and returns when the server answers.
    pub(super) fn start(
        image: &str,
        port: u16,
        variables: &[(&str, &str)],
        arguments: &[&str],
        answers: fn((&str, u16)) -> bool,
    ) -> Result<Self, Box<dyn Error>> {
        // A colon may also separate the port of a registry, but a slash follows that, and no tag has one.
        let (name, tag) = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')).unwrap_or((image, "latest"));
        let mut request =
            GenericImage::new(name, tag).with_exposed_port(port.tcp()).with_cmd(arguments.iter().copied());
        for (variable, value) in variables {
            request = request.with_env_var(*variable, *value);
        }
        let container = request.start()?;
        let (host, port) = (container.get_host()?.to_string(), container.get_host_port_ipv4(port)?);
        let container = Self { container, host, port };
        if holds(|| Ok(answers(container.address())))? { Ok(container) } else { Err("it does not answer".into()) }
    }

    /// The host and the port to connect to.
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Container").field(&self.container.id()).finish()
    }
}
