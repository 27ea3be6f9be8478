//! A simulated disk, built from recorded writes and syncs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::event::Event;
use super::image::Image;
use crate::random::Random;

/// A disk may tear a write between two sectors, which have this many bytes.
const SECTOR: usize = 512;

/// What happens, when the power fails, to the writes that no sync has followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All of them are on the disk.
    Kept,
    /// None of them is on the disk.
    Dropped,
    /// Some are on the disk, chosen by this seed: either all up to one, which is cut at any byte, or any sectors of any of the writes.
    Torn(u64),
}

/// Files, with the content that is on the disk, the writes since, and their names.
///
/// It keeps what a journalling file system keeps (ext4, XFS), and nothing beyond that. The sync of a file brings its bytes, its length and
/// its creation to the disk. Creations, renames and unlinks have one order for all files: a loss drops only the latest of them, and the
/// sync of a folder brings all before it to the disk. A rename does not bring the bytes of a file along. Without a sync, writes and changes
/// of the length reach the disk in any order, in any of their sectors, or not at all; what was never written reads as zeros.
#[derive(Debug, Default)]
pub(super) struct Disk {
    files: Vec<Content>,
    /// The file that each inode belongs to now.
    inodes: BTreeMap<u64, usize>,
    names: BTreeMap<PathBuf, usize>,
    /// The creations, renames and unlinks that no sync has followed, in order.
    renamed: Vec<Naming>,
}

#[derive(Debug, Default)]
struct Content {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Cut { length: usize },
}

#[derive(Debug)]
enum Naming {
    Create { name: PathBuf, file: usize },
    Rename { from: PathBuf, to: PathBuf },
    Unlink { name: PathBuf },
}

impl Disk {
    /// Applies an event. `Err` describes an earlier event that must have been missed.
    pub(super) fn apply(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Create { file, name } => {
                self.inodes.insert(*file, self.files.len());
                self.renamed.push(Naming::Create { name: name.clone(), file: self.files.len() });
                self.files.push(Content::default());
            }
            Event::Write { file, offset, bytes } => {
                self.file(*file)?.pending.push(Change::Write { offset: *offset, bytes: bytes.clone() });
            }
            Event::Cut { file, length } => self.file(*file)?.pending.push(Change::Cut { length: *length }),
            Event::Sync { file } => {
                let synced = match self.inodes.get(file) {
                    Some(file) => {
                        let Content { durable, pending } = &mut self.files[*file];
                        pending.drain(..).for_each(|change| change.apply(durable));
                        let creates =
                            |naming: &Naming| matches!(naming, Naming::Create { file: new, .. } if new == file);
                        self.renamed.iter().position(creates).map_or(0, |place| place + 1)
                    }
                    // The sync of a folder: inodes that are not files are folders.
                    None => self.renamed.len(),
                };
                self.renamed.drain(..synced).for_each(|naming| naming.apply(&mut self.names));
            }
            Event::Rename { from, to } => {
                self.renamed.push(Naming::Rename { from: from.clone(), to: to.clone() });
            }
            Event::Unlink { name } => self.renamed.push(Naming::Unlink { name: name.clone() }),
            Event::Acknowledged { .. } => {}
        }
        Ok(())
    }

    /// The files when the power comes back.
    pub(super) fn image(&self, loss: Loss) -> Image {
        let mut random = match loss {
            Loss::Torn(seed) => Some(Random::new(seed)),
            _ => None,
        };
        let namings = match (&mut random, loss) {
            (Some(random), _) => random.below(self.renamed.len() + 1),
            (None, Loss::Dropped) => 0,
            (None, _) => self.renamed.len(),
        };
        let mut names = self.names.clone();
        self.renamed[..namings].iter().for_each(|naming| naming.apply(&mut names));
        let content = |file: &usize| {
            let Content { durable, pending } = &self.files[*file];
            let mut bytes = durable.clone();
            match (&mut random, loss) {
                (Some(random), _) => tear(&mut bytes, pending, random),
                (None, Loss::Dropped) => {}
                (None, _) => pending.iter().for_each(|change| change.apply(&mut bytes)),
            }
            bytes
        };
        let contents: Vec<_> = names.values().map(content).collect();
        Image::new(names.into_keys().zip(contents).collect())
    }

    fn file(&mut self, inode: u64) -> Result<&mut Content, String> {
        let file = self.inodes.get(&inode).ok_or_else(|| format!("the log lacks the creation of the file {inode}"))?;
        Ok(&mut self.files[*file])
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write(content, *offset, bytes),
            Self::Cut { length } => content.resize(*length, 0),
        }
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Create { name, file } => drop(names.insert(name.clone(), *file)),
            Self::Rename { from, to } => {
                // Renaming a folder renames everything below it.
                let moved: Vec<_> = names.keys().filter(|name| name.starts_with(from)).cloned().collect();
                for name in moved {
                    let rest = name.strip_prefix(from).unwrap_or(Path::new("")).to_owned();
                    let target = if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
                    if let Some(file) = names.remove(&name) {
                        names.insert(target, file);
                    }
                }
            }
            Self::Unlink { name } => drop(names.remove(name)),
        }
    }
}

/// Applies some of these changes, chosen at random.
fn tear(content: &mut Vec<u8>, changes: &[Change], random: &mut Random) {
    if random.below(2) == 0 {
        let whole = random.below(changes.len() + 1);
        changes[..whole].iter().for_each(|change| change.apply(content));
        if let Some(Change::Write { offset, bytes }) = changes.get(whole) {
            write(content, *offset, &bytes[..random.below(bytes.len() + 1)]);
        }
        return;
    }
    for change in changes {
        match change {
            Change::Write { offset, bytes } => {
                let mut start = 0;
                while start < bytes.len() {
                    let end = (start + SECTOR - (offset + start) % SECTOR).min(bytes.len());
                    if random.below(2) == 0 {
                        write(content, offset + start, &bytes[start..end]);
                    }
                    start = end;
                }
            }
            Change::Cut { .. } if random.below(2) == 0 => change.apply(content),
            Change::Cut { .. } => {}
        }
    }
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 7;
    const FOLDER: u64 = 1;

    fn disk(events: &[Event]) -> Disk {
        let mut disk = Disk::default();
        events.iter().for_each(|event| disk.apply(event).expect("a file that was created"));
        disk
    }

    fn create(file: u64, name: &str) -> Event {
        Event::Create { file, name: name.into() }
    }

    fn written(offset: usize, byte: u8, length: usize) -> Event {
        Event::Write { file: FILE, offset, bytes: vec![byte; length] }
    }

    fn content(disk: &Disk, loss: Loss, name: &str) -> Option<Vec<u8>> {
        disk.image(loss).file(Path::new(name)).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_no_sync_has_followed_is_kept_dropped_or_torn() {
        let durable = vec![1; 4 * SECTOR];
        let mut events = vec![create(FILE, "a"), written(0, 1, 4 * SECTOR), Event::Sync { file: FILE }];
        events.push(written(0, 2, 4 * SECTOR));
        let disk = disk(&events);
        assert_eq!(content(&disk, Loss::Dropped, "a"), Some(durable.clone()));
        assert_eq!(content(&disk, Loss::Kept, "a"), Some(vec![2; 4 * SECTOR]));
        let torn: Vec<_> = (0..100).map(|seed| content(&disk, Loss::Torn(seed), "a").expect("a file")).collect();
        let is_mixed = |content: &&Vec<u8>| content.contains(&1) && content.contains(&2);
        assert!(torn.iter().filter(is_mixed).count() > 50, "most are neither the old nor the new content");
        let is_hole = |content: &&Vec<u8>| content[0] == 1 && content[SECTOR] == 2 && content[2 * SECTOR] == 1;
        assert!(torn.iter().any(|content| is_hole(&content)), "a later sector without an earlier one");
    }

    #[test]
    fn a_sync_is_of_its_own_file_and_of_the_names_until_that_was_created() {
        let mut events =
            vec![create(FILE, "a"), written(0, 1, 3), create(8, "b"), create(9, "d"), Event::Sync { file: 8 }];
        assert_eq!(content(&disk(&events), Loss::Dropped, "a"), Some(vec![]));
        assert_eq!(content(&disk(&events), Loss::Dropped, "d"), None);
        events.extend([Event::Rename { from: "a".into(), to: "c".into() }, Event::Unlink { name: "b".into() }]);
        let before = disk(&events);
        assert_eq!(content(&before, Loss::Dropped, "c"), None);
        assert_eq!((content(&before, Loss::Kept, "c"), content(&before, Loss::Kept, "b")), (Some(vec![1; 3]), None));
        events.push(Event::Sync { file: FILE });
        assert_eq!(content(&disk(&events), Loss::Dropped, "a"), Some(vec![1; 3]));
        events.push(Event::Sync { file: FOLDER });
        assert_eq!(content(&disk(&events), Loss::Dropped, "c"), Some(vec![1; 3]));
    }

    #[test]
    fn an_inode_that_is_used_again_is_another_file() {
        let events = [
            create(FILE, "a"),
            written(0, 1, 3),
            Event::Sync { file: FILE },
            Event::Unlink { name: "a".into() },
            create(FILE, "b"),
            written(1, 2, 1),
        ];
        let disk = disk(&events);
        assert_eq!((content(&disk, Loss::Dropped, "a"), content(&disk, Loss::Dropped, "b")), (Some(vec![1; 3]), None));
        assert_eq!(content(&disk, Loss::Kept, "b"), Some(vec![0, 2]));
    }

    #[test]
    fn a_file_that_nobody_saw_begin_is_an_error() {
        assert!(Disk::default().apply(&written(0, 1, 1)).is_err());
    }
}
