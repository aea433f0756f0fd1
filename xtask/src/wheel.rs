//! `cargo xtask wheel --plugin CRATE`: builds a wheel of sot that includes plug-ins. A crate is generated in `target`
//! that links the library of `sot-paddle` and the plug-ins, and maturin builds it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::command::quietly;
use crate::options::Options;
use crate::python::{self, Interpreter};
use crate::venv::{self, Venv};
use crate::workspace::{self, Links};
use crate::Failure;

/// Default name of the distribution: it replaces the plain one.
const NAME: &str = "sot-paddle";

/// Builds the wheels.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if options.plugins.is_empty() {
        return Err("wheel needs --plugin, the folder of a crate or name@version; the plain wheels are `wheels`".into());
    }
    venv::require_c_compiler()?;
    let plugins = options.plugins.iter().map(|text| Plugin::of(text)).collect::<Result<Vec<_>, _>>()?;
    let name = options.plugin_name.as_deref().unwrap_or(NAME);
    let manifest = generate(&workspace::target().join("with-plugins"), name, &plugins)?;
    let found = python::find(&options.pythons)?;
    let first = if options.pythons.is_empty() { found.interpreters.len() - 1 } else { 0 };
    for python in &found.interpreters[first..] {
        let wheel = build(python, &manifest)?;
        println!("{}", wheel.display());
        println!("Install it with pip, and see what is in it: python -m sot plugins --all");
    }
    Ok(())
}

/// A plug-in's crate.
struct Plugin {
    /// Name of the crate.
    name: String,
    /// Source of the crate, as entries of a dependency table in `Cargo.toml`.
    source: String,
}

impl Plugin {
    fn of(text: &str) -> Result<Plugin, Failure> {
        let folder = Path::new(text);
        if let Some((name, version)) = text.split_once('@').filter(|_| !folder.exists()) {
            return Ok(Plugin { name: name.to_owned(), source: format!("version = {version:?}") });
        }
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|error| {
            format!("--plugin {text}: {}: {error}; give a folder or name@version", manifest.display())
        })?;
        let name = package_name(&text).ok_or_else(|| format!("{} names no package", manifest.display()))?;
        let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Plugin { name, source: format!("path = {:?}", folder.display().to_string()) })
    }
}

/// Returns the name in the table `package` of a manifest.
fn package_name(manifest: &str) -> Option<String> {
    let package = manifest.split("[package]").nth(1)?.split("\n[").next()?;
    let line = package.lines().find(|line| line.split('=').next().is_some_and(|key| key.trim() == "name"))?;
    Some(line.split('"').nth(1)?.to_owned())
}

/// Writes the crate into a folder, and returns the path of its `Cargo.toml`.
fn generate(dir: &Path, name: &str, plugins: &[Plugin]) -> Result<PathBuf, Failure> {
    let files = [
        ("Cargo.toml", cargo_toml(plugins)),
        ("pyproject.toml", pyproject(name)?),
        ("README.md", fs::read_to_string(workspace::root().join("sot-paddle/README.md")).unwrap_or_default()),
        ("src/lib.rs", library(plugins)),
        // Pins the versions that were tested together.
        ("Cargo.lock", fs::read_to_string(workspace::root().join("Cargo.lock")).unwrap_or_default()),
    ];
    for (path, text) in files {
        let path = dir.join(path);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        if !fs::read_to_string(&path).is_ok_and(|found| found == text) {
            fs::write(&path, text).map_err(failed)?;
        }
    }
    let (from, to) = (workspace::root().join("sot-paddle/python"), dir.join("python"));
    let _ = fs::remove_dir_all(&to);
    workspace::copy_files(&from, &to, Links::Followed).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(dir.join("Cargo.toml"))
}

fn cargo_toml(plugins: &[Plugin]) -> String {
    let root = workspace::root().display();
    let mut text = format!(
        "[package]\nname = \"sot-with-plugins\"\nversion = \"{version}\"\nedition = \"2021\"\npublish = false\n\n\
         [workspace]\n\n[lib]\nname = \"sot_with_plugins\"\ncrate-type = [\"cdylib\"]\n\n\
         [profile.release]\nlto = \"thin\"\ncodegen-units = 4\nstrip = true\n\n\
         [dependencies]\nsot_paddle = {{ package = \"sot-paddle\", path = \"{root}/sot-paddle\" }}\n",
        version = env!("CARGO_PKG_VERSION"),
    );
    for (index, plugin) in plugins.iter().enumerate() {
        let Plugin { name, source } = plugin;
        writeln!(text, "plugin_{index} = {{ package = {name:?}, {source} }}").expect("a string takes any text");
    }
    text
}

/// Returns the source of the library. The extension module is that of `sot-paddle`; the plug-ins are only linked.
fn library(plugins: &[Plugin]) -> String {
    let uses: Vec<_> = (0..plugins.len()).map(|index| format!("use plugin_{index} as _;\n")).collect();
    format!("//! sot with plug-ins: generated by `cargo xtask wheel`.\n\nuse sot_paddle as _;\n{}", uses.concat())
}

/// Returns the project file of `sot-paddle` with another name and with absolute paths.
fn pyproject(name: &str) -> Result<String, Failure> {
    let dir = workspace::root().join("sot-paddle");
    let path = dir.join("pyproject.toml");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = replaced(&text, "name = \"sot-paddle\"", &format!("name = {name:?}"))?;
    replaced(&text, "data = \"wheel\"", &format!("data = \"{}/wheel\"", dir.display()))
}

fn replaced(text: &str, from: &str, to: &str) -> Result<String, Failure> {
    if text.matches(from).count() == 1 {
        return Ok(text.replace(from, to));
    }
    Err(format!("sot-paddle/pyproject.toml has not one line `{from}`"))
}

fn build(python: &Interpreter, manifest: &Path) -> Result<PathBuf, Failure> {
    let venv = Venv::prepare(python)?;
    let out = workspace::target().join("plugin-wheels").join(python.minor.to_string());
    // A wheel made with other plug-ins must not be taken for this one.
    let _ = fs::remove_dir_all(&out);
    quietly(&format!("{} wheel with plug-ins", python.minor), &mut venv.maturin_of(manifest, &out, "linux"))?;
    let wheel = venv::only_wheel(&out)?;
    let listed = venv.python_command().args(["-m", "zipfile", "-l"]).arg(&wheel).output();
    let names = listed.map_err(|error| format!("{}: {error}", wheel.display()))?.stdout;
    if String::from_utf8_lossy(&names).contains("sot/__init__.py") {
        Ok(wheel)
    } else {
        Err(format!("{} lacks the Python files of the package", wheel.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_a_folder_or_has_a_version() {
        let plugin = Plugin::of("sot-masks@1.2").expect("valid");
        assert_eq!((plugin.name.as_str(), plugin.source.as_str()), ("sot-masks", "version = \"1.2\""));
        assert!(Plugin::of("no/such/folder").is_err_and(|error| error.contains("name@version")));
        assert_eq!(
            package_name("[workspace]\n[package]\nname = \"maps\"\n[lib]\nname = \"x\"\n").as_deref(),
            Some("maps")
        );
    }

    #[test]
    fn the_project_file_is_that_of_the_plain_wheel() {
        let text = pyproject("sot-more").expect("valid");
        assert!(text.contains("name = \"sot-more\"") && text.contains("/sot-paddle/wheel\""), "{text}");
        assert!(text.contains("python-source = \"python\""), "{text}");
    }

    #[test]
    fn the_crate_has_the_files_of_the_package() {
        let dir = workspace::target().join("test-with-plugins");
        let manifest = generate(&dir, "sot-more", &[]).expect("written");
        let package = manifest.with_file_name("python").join("sot");
        assert!(package.join("__init__.py").is_file() && package.join("_verify/__init__.py").is_file());
        // This file is a link in the package.
        assert!(package.join("_face.pyi").is_file());
    }
}
