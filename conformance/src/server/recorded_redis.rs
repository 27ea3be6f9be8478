//! Redis that is recorded, and Redis behind a loss of power.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::home::Home;
use super::process::holds;
use super::redis::{ENGINE, LocalRedis, USERS};
use super::{Missing, new_password};
use crate::power::{Image, Recorder};

/// The folder of the data, in the home of the server.
const DATA: &str = "data";

impl LocalRedis {
    /// Starts one with these settings, and records what it does to the files of its data.
    pub fn start_recorded(settings: &[(&str, &str)]) -> Result<(Self, Recorder), Missing> {
        let start = || -> io::Result<_> {
            let mut home = Home::new(USERS)?;
            let recorder = Recorder::new(home.path(), &data(&home)?)?;
            home.set_variables(recorder.variables());
            Ok((Self::start_in(home, DATA, new_password(), settings)?, recorder))
        };
        start().map_err(|error| Missing::new(ENGINE, error.to_string()))
    }

    /// Starts one on files that a loss of power has left. `Err` where the server does not take them.
    pub fn start_on_image(image: &Image, settings: &[(&str, &str)]) -> io::Result<Self> {
        let home = Home::new(USERS)?;
        let data = data(&home)?;
        image.write(&data)?;
        give_away(&home, &data)?;
        let server = Self::start_in(home, DATA, new_password(), settings)?;
        // It answers before it has read them, and ends where it can't.
        match server.persists("loading:0") {
            Ok(true) => Ok(server),
            _ => Err(server.local.home().error("the server does not take the files")),
        }
    }

    /// Waits until what the server tells of its persistence has this line; `false` when it does not in good time.
    pub fn persists(&self, wanted: &str) -> io::Result<bool> {
        holds(|| Ok(self.command(&["INFO", "persistence"])?.lines().any(|line| line == wanted)))
    }

    /// The files of its data, where it was recorded or started on an image.
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

/// Gives what lies in a folder, at any depth, to the server's user.
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
