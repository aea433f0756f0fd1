//! Type checks of the Python package: mypy in strict mode and pyright, with the settings in
//! `sot-paddle/pyproject.toml`. The tools have an environment of their own, which does not need Paddle. They check
//! the package as it is at run time, including the modules of `sot-python` that are embedded in the compiled part.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::quietly;
use crate::python::Interpreter;
use crate::workspace::{self, Links};
use crate::Failure;

/// Pinned, because new releases report new problems; they are updated deliberately.
const TOOLS: [&str; 2] = ["mypy==2.4.1", "pyright==1.1.414"];

/// Runs both tools. If they cannot be installed, reports that and checks nothing.
pub(crate) fn check(base: &Interpreter) -> Result<(), Failure> {
    let bin = match prepare(base) {
        Ok(bin) => bin,
        Err(message) => {
            println!("[types] not checked: {message}");
            return Ok(());
        }
    };
    let package = assemble()?;
    let mut mypy = Command::new(bin.join("mypy"));
    mypy.args(["--config-file", "pyproject.toml", "python/sot"]).current_dir(&package);
    let mut pyright = Command::new(bin.join("pyright"));
    pyright.args(["--project", "pyproject.toml"]).current_dir(&package);
    let results = [quietly("mypy", &mut mypy), quietly("pyright", &mut pyright)];
    let failures: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n\n"))
    }
}

/// Assembles the package in a folder of its own. Stub files that are links are replaced by the modules.
fn assemble() -> Result<PathBuf, Failure> {
    let shown = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let package = workspace::target().join("types");
    let modules = package.join("python/sot");
    let _ = fs::remove_dir_all(&package);
    fs::create_dir_all(&modules).map_err(|error| shown(&modules, error))?;
    let paddle = workspace::root().join("sot-paddle");
    let settings = "pyproject.toml";
    fs::copy(paddle.join(settings), package.join(settings)).map_err(|error| shown(&package, error))?;
    for folder in [paddle.join("python/sot"), workspace::root().join("sot-python/python")] {
        workspace::copy_files(&folder, &modules, Links::LeftOut).map_err(|error| shown(&folder, error))?;
    }
    Ok(package)
}

/// Returns the folder of programs of the environment, which is made again if other releases are required.
fn prepare(base: &Interpreter) -> Result<PathBuf, Failure> {
    let dir = workspace::target().join("venv").join("types");
    let stamp_file = dir.join("installed.txt");
    let stamp = TOOLS.join("\n");
    if !fs::read_to_string(&stamp_file).is_ok_and(|found| found == stamp) {
        make(base, &dir)?;
        fs::write(&stamp_file, stamp).map_err(|error| format!("{}: {error}", stamp_file.display()))?;
    }
    Ok(dir.join("bin"))
}

fn make(base: &Interpreter, dir: &Path) -> Result<(), Failure> {
    let mut create = Command::new(&base.executable);
    create.args(["-m", "venv", "--clear"]).arg(dir);
    quietly("types environment", &mut create)?;
    let mut install = Command::new(dir.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(TOOLS);
    quietly("types packages", &mut install).map(drop)
}
