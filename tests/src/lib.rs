//! Test support beyond `sot-harness`: a backend whose values have memory, and the paths of the tests' Python files.

// Linked for their registrations.
use sot_harness as _;

pub mod strided;

use std::path::{Path, PathBuf};

use sot_core::version::PyVersion;

/// The Python files of a folder beside `Cargo.toml` that this interpreter can read, in order: `patterns_310.py` needs
/// 3.10.
pub fn files_of(folder: &str) -> std::io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "py") && needs(path) <= PyVersion::BUILT_FOR);
    paths.sort();
    Ok(paths)
}

fn needs(path: &Path) -> PyVersion {
    let minor = path.file_stem().and_then(|stem| stem.to_str()?.rsplit_once("_3")?.1.parse().ok());
    minor.map_or(PyVersion::OLDEST, PyVersion)
}
