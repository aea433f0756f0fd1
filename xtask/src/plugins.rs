//! `cargo xtask plugins`: builds, installs and tests the plug-ins in `plugins` as third-party ones would be. They are
//! not members of the workspace. Each is installed into a folder of its own, so that it does not affect other tests.
//! Afterwards the how-tos of `docs` are carried out (`how_tos`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{openly, quietly};
use crate::install::Build;
use crate::options::Options;
use crate::python;
use crate::venv::{only_wheel, Venv};
use crate::{how_tos, workspace, Failure};

/// Requirements of a plug-in's tests, in addition to those of the project.
const REQUIREMENTS: &str = "requirements.txt";

/// Builds and tests all plug-ins, or the named ones, and carries out the pages. Runs on the newest Python, or on the
/// requested ones.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = python::find(&options.pythons)?;
    let first = if options.pythons.is_empty() { found.interpreters.len() - 1 } else { 0 };
    let (pages, names): (Vec<String>, Vec<String>) =
        options.passed_on.iter().cloned().partition(|name| how_tos::PAGES.contains(&name.as_str()));
    let mut failures = Vec::new();
    for base in &found.interpreters[first..] {
        let venv = Venv::prepare(base)?;
        if pages.is_empty() || !names.is_empty() {
            venv.install_extension(Build::Release)?;
            for plugin in plugins(&names)? {
                failures.extend(try_one(&venv, &plugin).err());
            }
        }
        for page in how_tos::PAGES {
            if options.passed_on.is_empty() || pages.iter().any(|wanted| wanted == page) {
                failures.extend(how_tos::follow(&venv, page).err());
            }
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("\n\n"))
}

/// Returns the folders of the plug-ins.
fn plugins(wanted: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let home = workspace::root().join("plugins");
    let entries = home.read_dir().map_err(|error| format!("{}: {error}", home.display()))?;
    let mut all: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.join("pyproject.toml").is_file()).collect();
    all.sort();
    if let Some(unknown) = wanted.iter().find(|name| !all.iter().any(|path| path.ends_with(name.as_str()))) {
        return Err(format!("there is no plug-in {unknown} in {}", home.display()));
    }
    all.retain(|path| wanted.is_empty() || wanted.iter().any(|name| path.ends_with(name.as_str())));
    Ok(all)
}

fn try_one(venv: &Venv, plugin: &Path) -> Result<(), Failure> {
    let minor = venv.base.minor;
    let name = plugin.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let home = workspace::target().join("plugins").join(minor.to_string()).join(&name);
    let (site, wheels) = (home.join("site"), home.join("wheels"));
    // Files of an earlier version must not be tested by mistake.
    for folder in [&site, &wheels] {
        let _ = fs::remove_dir_all(folder);
    }
    let requirements = plugin.join(REQUIREMENTS);
    if requirements.is_file() {
        let mut install = venv.pip_install();
        install.args(["--no-deps", "--target"]).arg(&site).arg("-r").arg(&requirements);
        if let Err(why) = quietly(&format!("{minor} {name} requirements"), &mut install) {
            println!("[{minor} {name}] not tested: {} cannot be installed\n{why}", requirements.display());
            return Ok(());
        }
    }
    let mut build = venv.python_command();
    if plugin.join("Cargo.toml").is_file() {
        build.args(["-m", "maturin", "build", "--compatibility", "linux", "--manifest-path"]);
        build.arg(plugin.join("Cargo.toml")).arg("--interpreter").arg(venv.python());
        build.arg("--target-dir").arg(workspace::target().join(format!("plugins/py{minor}"))).arg("--out").arg(&wheels);
    } else {
        build.args(["-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--wheel-dir"]);
        build.arg(&wheels).arg(plugin);
    }
    quietly(&format!("{minor} {name} build"), &mut build)?;
    let mut install = venv.pip_install();
    install.args(["--no-deps", "--target"]).arg(&site).arg(only_wheel(&wheels)?);
    quietly(&format!("{minor} {name} install"), &mut install)?;
    let mut tests = venv.python_command();
    tests.args(["-m", "pytest", "-q"]).arg(plugin.join("tests")).env("PYTHONPATH", &site);
    let shown = openly(&format!("{minor} {name} tests"), &mut tests)?;
    if shown.status.success() {
        Ok(())
    } else {
        Err(format!("[{minor} {name}] tests failed: {}", shown.lines.last().map_or("no output", |line| line)))
    }
}
