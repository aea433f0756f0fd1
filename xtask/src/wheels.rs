//! `cargo xtask wheels`: what is published, below `target/dist`: a wheel for each interpreter, stripped and audited,
//! and the source distribution. Each wheel is installed in an empty environment and tried there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{openly, quietly};
use crate::options::Options;
use crate::python::{self, Interpreter, Minor};
use crate::venv::{self, Venv};
use crate::{workspace, Failure};

/// The oldest systems that the wheels are for, as maturin audits it; those that build them must not be newer.
const POLICY: &str = "manylinux_2_34";
/// The largest wheel, in bytes.
const LARGEST: u64 = 10 << 20;

/// Makes and tries all of them.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    venv::require_c_compiler()?;
    let found = python::find(&options.pythons)?;
    let dist = workspace::target().join("dist");
    // What an earlier version left there must not be published by mistake.
    let _ = fs::remove_dir_all(&dist);
    let mut failed = Vec::new();
    for python in &found.interpreters {
        println!("\n== CPython {} ==", python.version);
        if let Err(failure) = wheel(python, &dist) {
            eprintln!("{failure}");
            failed.push(python.minor);
        }
    }
    if !failed.is_empty() {
        return Err(format!("Failed on CPython {}.", Minor::list(failed)));
    }
    let newest = found.interpreters.last().ok_or("no interpreter was found")?;
    let sources = sources(newest, &dist)?;
    println!("\nIn {}:\n{}", dist.display(), names(&dist)?.join("\n"));
    println!("The sources build with: pip wheel --no-deps {}", sources.display());
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

/// Installs the wheel where nothing else is, and asks it what it is; then beside the packages of the tests, whether it
/// works.
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

/// The source distribution.
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
