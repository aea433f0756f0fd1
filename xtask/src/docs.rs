//! `cargo xtask docs`: builds the site in `target/docs/site`: the pages of `docs/` with the output of their examples,
//! the Python API from docstrings, and rustdoc. Checks links and spelling. The tools have an environment of their
//! own. If their packages cannot be installed, the command reports that without failing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::quietly;
use crate::install::Build;
use crate::options::Options;
use crate::python::{self, Interpreter};
use crate::venv::Venv;
use crate::{workspace, Failure};

const REQUIREMENTS: &str = "docs/site/requirements.txt";
/// Files and folders whose spelling is checked.
const SPELLED: [&str; 6] = ["docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples"];

/// Builds and checks the site.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let found = python::find(&options.pythons)?;
    let newest = found.interpreters.last().ok_or("no interpreter was found")?;
    build(newest, || with_extension(newest))
}

/// As `run`, with a function that returns the interpreter for the examples.
pub(crate) fn build(
    newest: &Interpreter,
    with_extension: impl FnOnce() -> Result<PathBuf, Failure>,
) -> Result<(), Failure> {
    let tools = match environment(newest) {
        Ok(tools) => tools,
        Err(failure) => {
            println!("{failure}\n\nThe site is not built: the packages that build it cannot be installed here.");
            return Ok(());
        }
    };
    let run = |program: &str| {
        let mut command = Command::new(tools.join("bin").join(program));
        command.current_dir(workspace::root());
        command
    };
    let mut spelling = run("codespell");
    spelling.args(["--skip", "*.svg,*.png,*.json", "--ignore-words", "docs/site/words.txt"]).args(SPELLED);
    quietly("spelling", &mut spelling)?;
    let examples = with_extension()?;
    let mut build = run("mkdocs");
    build.args(["build", "--strict", "--quiet"]).env("SOT_DOCS_PYTHON", examples);
    // mkdocs warns about a future release of its own.
    build.env("NO_MKDOCS_2_WARNING", "1").env("DISABLE_MKDOCS_2_WARNING", "true");
    quietly("site", &mut build)?;
    let site = workspace::target().join("docs/site");
    rustdoc(newest, &site)?;
    let mut links = run("python");
    links.arg("docs/site/check_links.py").arg(&site);
    quietly("links", &mut links)?;
    println!("{}", site.join("index.html").display());
    println!("The search works on a server: python3 -m http.server --directory {}", site.display());
    Ok(())
}

/// Returns the environment with the packages that build the site.
fn environment(python: &Interpreter) -> Result<PathBuf, Failure> {
    python.require_venv()?;
    let dir = workspace::target().join("docs/venv");
    let wanted = fs::read_to_string(workspace::root().join(REQUIREMENTS)).map_err(|error| error.to_string())?;
    let stamp = dir.join("installed.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(dir);
    }
    let mut create = Command::new(&python.executable);
    create.args(["-m", "venv", "--clear"]).arg(&dir);
    quietly("environment of the site", &mut create)?;
    let mut install = Command::new(dir.join("bin/python"));
    install.args(["-m", "pip", "--disable-pip-version-check", "install", "-r"]);
    quietly("packages of the site", install.arg(workspace::root().join(REQUIREMENTS)))?;
    fs::write(&stamp, wanted).map_err(|error| error.to_string())?;
    Ok(dir)
}

/// Returns an interpreter with Paddle and this version of the package, for the examples: the one named by
/// `SOT_DOCS_PYTHON`, or that of the tests.
fn with_extension(python: &Interpreter) -> Result<PathBuf, Failure> {
    if let Some(given) = std::env::var_os("SOT_DOCS_PYTHON") {
        return Ok(given.into());
    }
    let venv = Venv::prepare(python)?;
    venv.install_extension(Build::Release)?;
    Ok(venv.python())
}

fn rustdoc(python: &Interpreter, site: &Path) -> Result<(), Failure> {
    let target = workspace::target().join(format!("py{}", python.minor));
    let mut doc = Command::new(workspace::cargo());
    doc.current_dir(workspace::root()).args(["doc", "--workspace", "--no-deps", "--exclude", "xtask"]);
    doc.env("CARGO_TARGET_DIR", &target).env("PYO3_PYTHON", &python.executable);
    quietly("rustdoc", &mut doc)?;
    let rust = site.join("rust");
    let _ = fs::remove_dir_all(&rust);
    let mut copy = Command::new("cp");
    quietly("copy of rustdoc", copy.arg("-r").arg(target.join("doc")).arg(&rust)).map(drop)
}
