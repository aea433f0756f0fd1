//! Compiles the Python modules that the library serves, by the Python that the build is for: importing them then needs
//! no compiler. Where that Python cannot be run, or another one imports them, their sources are compiled at import.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Compiles each file named, and says for which bytecode.
const COMPILE: &str = r#"
import importlib.util, marshal, pathlib, sys
out = pathlib.Path(sys.argv[1])
for file in map(pathlib.Path, sys.argv[2:]):
    code = compile(file.read_text(encoding="utf-8"), f"<sot>/{file.name}", "exec", dont_inherit=True, optimize=0)
    (out / f"{file.stem}.code").write_bytes(marshal.dumps(code))
(out / "magic").write_bytes(importlib.util.MAGIC_NUMBER)
"#;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=python");
    let files = modules(Path::new("python"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for file in &files {
        let stem = file.file_stem().expect("a module has a name").to_string_lossy();
        fs::write(out.join(format!("{stem}.code")), []).expect("the folder is cargo's");
    }
    fs::write(out.join("magic"), []).expect("the folder is cargo's");
    if let Some(python) = pyo3_build_config::get().executable() {
        let compiled = Command::new(python).args(["-I", "-c", COMPILE]).arg(&out).args(&files).status();
        if !compiled.is_ok_and(|status| status.success()) {
            println!("cargo:warning=the Python modules are not compiled beforehand: {python} does not run");
        }
    }
}

fn modules(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().expect("the folder is part of the crate");
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "py")).collect()
}
