//! Redis whose writes are recorded, and Redis started on the files that a loss of power has left.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::home::Home;
use super::process::holds;
use super::redis::{ENGINE, LocalRedis, USERS};
use super::{Missing, new_password};
use crate::power::{Image, Recorder};

/// The folder of the data, below the server's folder.
const DATA: &str = "data";

impl LocalRedis {
    /// Starts a server with these settings, and records its writes to the files of its data.
    pub fn start_recorded(settings: &[(&str, &str)]) -> Result<(Self, Recorder), Missing> {
        let start = || -> io::Result<_> {
            let mut home = Home::new(USERS)?;
            let recorder = Recorder::new(home.path(), &data(&home)?)?;
            home.set_variables(recorder.variables());
            Ok((Self::start_in(home, DATA, new_password(), settings)?, recorder))
        };
        start().map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// Starts a server on the files that a loss of power has left. `Err` if the server refuses them.
    pub fn start_on_image(image: &Image, settings: &[(&str, &str)]) -> io::Result<Self> {
        let home = Home::new(USERS)?;
        let data = data(&home)?;
        image.write(&data)?;
        give_away(&home, &data)?;
        let server = Self::start_in(home, DATA, new_password(), settings)?;
        // The server answers before it has loaded its files, and exits if it can't load them.
        match server.persists("loading:0") {
            Ok(true) => Ok(server),
            _ => Err(server.local.home().error("the server does not take the files")),
        }
    }

    /// Waits until `INFO persistence` has this line; `false` if it does not in time.
    pub fn persists(&self, wanted: &str) -> io::Result<bool> {
        holds(|| Ok(self.command(&["INFO", "persistence"])?.lines().any(|line| line == wanted)))
    }

    /// The folder of the data of a server that is recorded or was started on an image.
    pub fn data(&self) -> PathBuf {
        self.folder().join(DATA)
    }
}

fn data(home: &Home) -> io::Result<PathBuf> {
    let folder = home.path().join(DATA);
    fs::create_dir(&folder)?;
    home.give_away(&folder)?;
    Ok(folder)
}

/// Makes the server's user the owner of everything below a folder.
fn give_away(home: &Home, folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        home.give_away(&path)?;
        if path.is_dir() {
            give_away(home, &path)?;
        }
    }
    Ok(())
}
