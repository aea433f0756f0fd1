//! Puts the extension and its Python package into an environment: as the wheel that users get, or as cargo builds it
//! for the Rust tests, so that nothing is compiled twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::quietly;
use crate::venv::{only_wheel, Venv};
use crate::{workspace, Failure};

/// How the extension is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// Optimised, and packed as a wheel.
    Release,
    /// In cargo's `dev` profile, with its checks: the crates are those that the Rust tests link. The extension then
    /// links Python's shared library, so the interpreter has to run from that.
    Development,
}

impl Venv {
    /// Builds the extension and installs the package; gives the time it took.
    pub(crate) fn install_extension(&self, build: Build) -> Result<Duration, Failure> {
        match build {
            Build::Development if self.base.runs_from_library => self.install_development(),
            Build::Development | Build::Release => self.install_wheel(),
        }
    }

    fn install_wheel(&self) -> Result<Duration, Failure> {
        let wheels = self.wheels();
        // What an earlier version left there must not be installed by mistake.
        let _ = fs::remove_dir_all(&wheels);
        let built = quietly(&format!("{} build", self.base.minor), &mut self.maturin(&wheels, "linux"))?;
        let wheel = only_wheel(&wheels)?;
        self.uninstall()?;
        let mut install = self.pip_install();
        install.args(["--no-deps", "--force-reinstall"]).arg(&wheel);
        Ok(built + quietly(&format!("{} install", self.base.minor), &mut install)?)
    }

    fn install_development(&self) -> Result<Duration, Failure> {
        let mut cargo = self.cargo_with_library("build")?;
        // With the packages of the Rust tests, although only one is installed: cargo chooses the features of shared
        // dependencies for all of the packages that it is asked for, and compiles everything anew for other features.
        cargo.args(["--workspace", "--exclude", "xtask", "--lib"]);
        let built = quietly(&format!("{} build", self.base.minor), &mut cargo)?;
        let started = Instant::now();
        self.uninstall()?;
        let (sources, packages) = (workspace::root().join("sot-paddle"), self.site_packages());
        let mut files = copy_all(&sources.join("python"), &packages)?;
        files.extend(copy_all(&sources.join("wheel/purelib"), &packages)?);
        let extension = packages.join("sot/_sot.so");
        copy(&self.cargo_target().join("debug/lib_sot.so"), &extension)?;
        files.push(extension);
        self.write_metadata(files)?;
        Ok(built + started.elapsed())
    }

    /// Describes the distribution as `importlib.metadata` and pip read it: name, version and files.
    fn write_metadata(&self, mut files: Vec<PathBuf>) -> Result<(), Failure> {
        let (version, packages) = (env!("CARGO_PKG_VERSION"), self.site_packages());
        let dir = packages.join(format!("sot_paddle-{version}.dist-info"));
        fs::create_dir_all(&dir).map_err(failed(&dir))?;
        let (metadata, record) = (dir.join("METADATA"), dir.join("RECORD"));
        let text = format!("Metadata-Version: 2.1\nName: sot-paddle\nVersion: {version}\n");
        fs::write(&metadata, text).map_err(failed(&metadata))?;
        files.extend([metadata, record.clone()]);
        // Without hashes and sizes, which a record may leave out.
        let relative = |file: &PathBuf| file.strip_prefix(&packages).unwrap_or(file).display().to_string();
        let lines: Vec<String> = files.iter().map(|file| relative(file) + ",,").collect();
        fs::write(&record, lines.join("\n") + "\n").map_err(failed(&record))
    }

    /// Removes what either way of installing has left.
    fn uninstall(&self) -> Result<(), Failure> {
        let mut pip = self.python_command();
        pip.args(["-m", "pip", "--disable-pip-version-check", "uninstall", "--yes", "sot-paddle"]);
        quietly(&format!("{} uninstall", self.base.minor), &mut pip).map(drop)
    }

    /// A cargo command for programs that embed this interpreter.
    pub(crate) fn cargo_with_library(&self, subcommand: &str) -> Result<Command, Failure> {
        let missing = || format!("{} has no shared library", self.base.executable.display());
        let library = self.base.library_dir.clone().ok_or_else(missing)?;
        let mut cargo = Command::new(workspace::cargo());
        cargo
            .current_dir(workspace::root())
            .arg(subcommand)
            .env("CARGO_TARGET_DIR", self.cargo_target())
            .env("PYO3_PYTHON", self.python())
            .env("LD_LIBRARY_PATH", library_path(library))
            .env("PYTHONHOME", &self.base.home)
            .env("PYTHONPATH", self.site_packages());
        Ok(cargo)
    }

    /// Where its wheel is left.
    pub(crate) fn wheels(&self) -> PathBuf {
        workspace::target().join("wheels").join(self.base.minor.to_string())
    }
}

/// `first`, then what `LD_LIBRARY_PATH` holds already.
fn library_path(first: PathBuf) -> std::ffi::OsString {
    let rest = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let rest = std::env::split_paths(&rest).filter(|dir| !dir.as_os_str().is_empty());
    std::env::join_paths(std::iter::once(first.clone()).chain(rest)).unwrap_or(first.into())
}

/// Copies the files and folders in `from` into `to`, without what Python has compiled of them. Returns the new files.
fn copy_all(from: &Path, to: &Path) -> Result<Vec<PathBuf>, Failure> {
    fs::create_dir_all(to).map_err(failed(to))?;
    let mut files = Vec::new();
    for entry in from.read_dir().map_err(failed(from))? {
        let entry = entry.map_err(failed(from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if !path.is_dir() {
            copy(&path, &target)?;
            files.push(target);
        } else if entry.file_name() != "__pycache__" {
            files.extend(copy_all(&path, &target)?);
        }
    }
    Ok(files)
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(|_| ()).map_err(failed(from))
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
