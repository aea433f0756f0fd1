//! Paths of the checkout and of the target directory, and copying of folders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the root of the checkout.
pub(crate) fn root() -> &'static Path {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().unwrap_or(crate_dir)
}

/// Returns `target/`, or the directory named by `CARGO_TARGET_DIR`.
pub(crate) fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    let dir = named.map_or_else(|| root().join("target"), PathBuf::from);
    std::path::absolute(&dir).unwrap_or(dir)
}

/// Returns the cargo that runs this program.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// How symbolic links are treated when a folder is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Links are not copied.
    LeftOut,
    /// The files that links refer to are copied.
    Followed,
}

/// Copies a folder recursively, without `__pycache__`.
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
