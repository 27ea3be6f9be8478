//! Unpacks the kept inputs of a target into a folder, where libFuzzer reads and extends them, and packs them again.

use std::path::Path;

use agent_memory_fuzz::{pack, unpack};
use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["unpack", target, folder] => unpack(target, Path::new(folder)),
        ["pack", target, folder] => {
            println!("{} inputs of {target}", pack(target, Path::new(folder))?);
            Ok(())
        }
        _ => bail!("corpus unpack TARGET FOLDER, or corpus pack TARGET FOLDER"),
    }
}
