//! `cargo xtask wheels`: builds what is published, in `target/dist`: a stripped and audited wheel for each
//! interpreter, and the source distribution, from which a wheel is built as a test. Each wheel is installed in an
//! empty environment and tried there. The command fails if the sources change while it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{openly, quietly};
use crate::options::Options;
use crate::python::{self, Interpreter, Minor};
use crate::sources::{self, Sources};
use crate::venv::{self, Venv};
use crate::{workspace, Failure};

/// The oldest systems that the wheels support, as maturin checks. The build systems must not be newer.
const POLICY: &str = "manylinux_2_34";
const TWINE: &str = "twine>=5,<8";
const AUDITWHEEL: &str = "auditwheel>=6,<8";
/// Maximum size of a wheel, in bytes.
const LARGEST: u64 = 10 << 20;

/// Builds and tries all wheels and the source distribution.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    venv::require_c_compiler()?;
    let found = python::find(&options.pythons)?;
    let dist = workspace::target().join("dist");
    // Files of an earlier version must not be published by mistake.
    let _ = fs::remove_dir_all(&dist);
    let before = Sources::of(workspace::root());
    tell_uncommitted(before.as_ref());
    let mut failed = Vec::new();
    for python in &found.interpreters {
        println!("\n== CPython {} ==", python.version);
        let made = wheel(python, &dist);
        require_same(before.as_ref(), &dist)?;
        if let Err(failure) = made {
            eprintln!("{failure}");
            failed.push(python.minor);
        }
    }
    if !failed.is_empty() {
        return Err(format!("Failed on CPython {}.", Minor::list(failed)));
    }
    let newest = found.interpreters.last().ok_or("no interpreter was found")?;
    let sources = sources(newest, &dist)?;
    println!("\n== source distribution, CPython {} ==", newest.version);
    wheel_of_sources(newest, &sources)?;
    require_same(before.as_ref(), &dist)?;
    audit(newest, &dist)?;
    println!("\nIn {}:\n{}", dist.display(), names(&dist)?.join("\n"));
    Ok(())
}

/// Says that the files are of no commit, if the checkout has changes.
fn tell_uncommitted(sources: Option<&Sources>) {
    let changed = sources.map(Sources::uncommitted).unwrap_or_default();
    if !changed.is_empty() {
        println!("Do not publish these files: the checkout has uncommitted changes ({}).", sources::shown(&changed));
    }
}

/// Fails if the sources have changed since the command began, and deletes what was built: it may be of both states.
fn require_same(before: Option<&Sources>, dist: &Path) -> Result<(), Failure> {
    let unchanged = before.map_or(Ok(()), Sources::check_unchanged);
    if unchanged.is_err() {
        let _ = fs::remove_dir_all(dist);
    }
    unchanged
}

/// Builds a wheel from the source distribution, outside of the checkout, and tries it.
fn wheel_of_sources(python: &Interpreter, sources: &Path) -> Result<(), Failure> {
    let venv = Venv::prepare(python)?;
    let out = workspace::target().join("dist-sources");
    let _ = fs::remove_dir_all(&out);
    let mut build = venv.python_command();
    build.args(["-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--wheel-dir"]).arg(&out);
    // Shares the target folder with the other wheels, so that unchanged objects are reused.
    build.arg(sources).env("CARGO_TARGET_DIR", venv.cargo_target());
    quietly("wheel of the sources", &mut build)?;
    let tried = try_out(python, &venv, &venv::only_wheel(&out)?);
    let _ = fs::remove_dir_all(&out);
    tried
}

/// Checks the metadata with `twine` and the required system libraries with `auditwheel`. Reports tools that cannot be
/// installed.
fn audit(python: &Interpreter, dist: &Path) -> Result<(), Failure> {
    let dir = workspace::target().join("venv/wheel-tools");
    if !dir.join("bin/auditwheel").exists() {
        let mut create = Command::new(&python.executable);
        create.args(["-m", "venv", "--clear"]).arg(&dir);
        quietly("environment of twine and auditwheel", &mut create)?;
        let mut install = Command::new(dir.join("bin/python"));
        install.args(["-m", "pip", "--disable-pip-version-check", "install", TWINE, AUDITWHEEL]);
        if let Err(failure) = quietly("twine and auditwheel", &mut install) {
            println!("{failure}\n\nNot checked by twine and auditwheel, which cannot be installed here.");
            return Ok(());
        }
    }
    let published: Vec<PathBuf> = names(dist)?.into_iter().map(|name| dist.join(name)).collect();
    let mut twine = Command::new(dir.join("bin/twine"));
    quietly("metadata", twine.args(["check", "--strict"]).args(&published))?;
    for wheel in published.iter().filter(|path| path.extension().is_some_and(|extension| extension == "whl")) {
        let mut auditwheel = Command::new(dir.join("bin/auditwheel"));
        let shown = openly("auditwheel", auditwheel.arg("show").arg(wheel))?;
        let newest_allowed = glibc_of(POLICY);
        if !shown.status.success() || glibc_of(&shown.lines.join(" ")) > newest_allowed {
            return Err(format!("auditwheel finds {} not fit for {POLICY}", wheel.display()));
        }
    }
    Ok(())
}

fn wheel(python: &Interpreter, dist: &Path) -> Result<(), Failure> {
    let venv = Venv::prepare(python)?;
    let out = dist.join(python.minor.to_string());
    let mut build = venv.maturin(&out, POLICY);
    build.arg("--strip");
    quietly(&format!("{} wheel", python.minor), &mut build)?;
    let made = venv::only_wheel(&out)?;
    let name = made.file_name().ok_or("a wheel has a name")?;
    let wheel = dist.join(name);
    fs::rename(&made, &wheel).and_then(|()| fs::remove_dir(&out)).map_err(|error| error.to_string())?;
    let size = fs::metadata(&wheel).map_err(|error| error.to_string())?.len();
    println!("{} has {} KiB", wheel.display(), size >> 10);
    if size > LARGEST {
        return Err(format!("{} is larger than {} MiB", wheel.display(), LARGEST >> 20));
    }
    try_out(python, &venv, &wheel)
}

/// Installs the wheel in an empty environment and runs `sot --version`; then adds the packages of the tests and runs
/// `sot doctor`.
fn try_out(python: &Interpreter, packages: &Venv, wheel: &Path) -> Result<(), Failure> {
    let minor = python.minor;
    let dir = workspace::target().join("venv").join(format!("wheel-{minor}"));
    let mut create = Command::new(&python.executable);
    create.args(["-m", "venv", "--clear"]).arg(&dir);
    quietly(&format!("{minor} empty environment"), &mut create)?;
    let run = |arguments: &[&str]| {
        let mut command = Command::new(dir.join("bin/python"));
        command.args(arguments).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        command
    };
    let mut install = run(&["-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]);
    quietly(&format!("{minor} install of the wheel"), install.arg(wheel))?;
    asked(&format!("{minor} version"), &mut run(&["-m", "sot", "--version"]))?;
    let path = dir.join(format!("lib/python{minor}/site-packages/packages.pth"));
    fs::write(&path, packages.site_packages().display().to_string()).map_err(|error| error.to_string())?;
    let tried = asked(&format!("{minor} doctor"), &mut run(&["-m", "sot", "doctor"]));
    let _ = fs::remove_dir_all(&dir);
    tried
}

fn asked(what: &str, command: &mut Command) -> Result<(), Failure> {
    let shown = openly(what, command)?;
    if shown.status.success() {
        Ok(())
    } else {
        Err(format!("[{what}] failed ({})", shown.status))
    }
}

/// Builds the source distribution and returns its path.
fn sources(python: &Interpreter, dist: &Path) -> Result<PathBuf, Failure> {
    let venv = Venv::prepare(python)?;
    let mut maturin = venv.python_command();
    maturin.args(["-m", "maturin", "sdist", "--manifest-path"]);
    maturin.arg(workspace::root().join("sot-paddle/Cargo.toml")).arg("--out").arg(dist);
    quietly("source distribution", &mut maturin)?;
    let name = names(dist)?.into_iter().find(|name| name.ends_with(".tar.gz"));
    name.map(|name| dist.join(name)).ok_or_else(|| "maturin left no source distribution".to_owned())
}

fn names(dist: &Path) -> Result<Vec<String>, Failure> {
    let entries = dist.read_dir().map_err(|error| format!("{}: {error}", dist.display()))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Returns the minor version of glibc in the first tag such as `manylinux_2_34`; `u32::MAX` if there is no tag.
fn glibc_of(text: &str) -> u32 {
    let digits = text.split_once("manylinux_2_").map_or("", |(_, rest)| rest);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::glibc_of;

    #[test]
    fn the_tag_that_auditwheel_names_is_read() {
        let shown = "sot_paddle.whl is consistent with the following platform tag: \"manylinux_2_28_x86_64\".";
        assert_eq!((glibc_of(shown), glibc_of(super::POLICY)), (28, 34));
        assert_eq!(glibc_of("the following platform tag: \"linux_x86_64\"."), u32::MAX);
    }
}
