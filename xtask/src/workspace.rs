//! Where things are: the checkout, and the directory builds and virtual environments go to; and copies of folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().unwrap_or(crate_dir)
}

/// `target/`, or what `CARGO_TARGET_DIR` names instead.
pub(crate) fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    let dir = named.map_or_else(|| root().join("target"), PathBuf::from);
    std::path::absolute(&dir).unwrap_or(dir)
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// What becomes of symbolic links when a folder is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// They are not copied.
    LeftOut,
    /// What they lead to is copied.
    Followed,
}

/// Copies the files of a folder and of those in it, but for what CPython has compiled.
pub(crate) fn copy_files(from: &Path, to: &Path, links: Links) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.file_name());
        if kind.is_dir() && name != "__pycache__" {
            copy_files(&entry.path(), &to.join(name), links)?;
        } else if kind.is_file() || kind.is_symlink() && links == Links::Followed {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
