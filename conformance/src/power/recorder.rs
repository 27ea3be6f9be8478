//! The recorder: a library for `LD_PRELOAD`, and its log.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::{Disk, Loss};
use super::event::Event;
use super::image::Image;

/// Written in C, since it replaces functions of the C library.
const SOURCE: &str = include_str!("recorder.c");

/// Records what processes do to the files below a folder.
#[derive(Debug, Clone)]
pub struct Recorder {
    library: PathBuf,
    log: PathBuf,
    folder: PathBuf,
}

impl Recorder {
    /// The recorder with whose [`Recorder::variables`] this process was started, if any.
    pub fn of_this_process() -> Option<Self> {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        Some(Self {
            library: path("LD_PRELOAD")?,
            log: path("MEMORY_RECORD_LOG")?,
            folder: path("MEMORY_RECORD_FOLDER")?,
        })
    }

    /// A recorder for `folder`, which must exist and be empty. Its library and its log are put into `place`.
    pub fn new(place: &Path, folder: &Path) -> io::Result<Self> {
        let (source, library, log) = (place.join("recorder.c"), place.join("recorder.so"), place.join("recorder.log"));
        fs::write(&source, SOURCE)?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .args(["-ldl", "-lpthread"])
            .output()
            .map_err(|error| io::Error::other(format!("no C compiler `cc` for the recorder: {error}")))?;
        if !compiled.status.success() {
            let report = String::from_utf8_lossy(&compiled.stderr).into_owned();
            return Err(io::Error::other(format!("the recorder does not compile: {report}")));
        }
        File::create_new(&log)?;
        // A recorded server may run as another user, who must be able to write the log.
        fs::set_permissions(&log, Permissions::from_mode(0o666))?;
        Ok(Self { library, log, folder: folder.to_owned() })
    }

    /// The environment variables of a process that is to be recorded.
    pub fn variables(&self) -> [(&'static str, &Path); 3] {
        [("LD_PRELOAD", &self.library), ("MEMORY_RECORD_LOG", &self.log), ("MEMORY_RECORD_FOLDER", &self.folder)]
    }

    /// The folder whose files are recorded.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes in the log that this many calls of the workload have returned.
    pub fn acknowledge(&self, calls: usize) -> io::Result<()> {
        let record = Event::acknowledgement(calls);
        match OpenOptions::new().append(true).open(&self.log)?.write(&record)? == record.len() {
            true => Ok(()),
            false => Err(io::Error::other("an acknowledgement was cut short")),
        }
    }

    /// The image after a loss of power right after each acknowledgement, with the number of calls that had returned.
    pub fn acknowledged(&self, loss: Loss) -> io::Result<Vec<(usize, Image)>> {
        let (mut disk, mut images) = (Disk::default(), Vec::new());
        for event in self.events()? {
            disk.apply(&event).map_err(io::Error::other)?;
            if let Event::Acknowledged { calls } = event {
                images.push((calls, disk.image(loss)));
            }
        }
        Ok(images)
    }

    pub(super) fn events(&self) -> io::Result<Vec<Event>> {
        Event::read_all(&fs::read(&self.log)?)
    }
}
