//! Virtual environments, one for each interpreter, with the packages that the tests require.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::quietly;
use crate::python::Interpreter;
use crate::{workspace, Failure};

/// The file of the packages that are installed in addition to the project itself.
const REQUIREMENTS: &str = "tests/requirements.txt";

/// The folder in `target` where cargo builds for one Python after the other.
const SHARED_BUILD: &str = "py";

/// A virtual environment below `target/venv`.
pub(crate) struct Venv {
    /// The interpreter that the environment was made from.
    pub(crate) base: Interpreter,
    dir: PathBuf,
    /// True if cargo builds in the directory that is shared by all Pythons.
    shares_build: bool,
}

impl Venv {
    /// Makes the environment and installs the requirements, unless that was done before for the same files.
    pub(crate) fn prepare(base: &Interpreter) -> Result<Venv, Failure> {
        base.require_venv()?;
        let minor = base.minor;
        let venv = Venv::of(base);
        let stamp = venv.stamp()?;
        let stamp_file = venv.dir.join("installed.txt");
        if fs::read_to_string(&stamp_file).is_ok_and(|found| found == stamp) {
            return Ok(venv);
        }
        let mut create = Command::new(&base.executable);
        create.args(["-m", "venv", "--clear"]).arg(&venv.dir);
        quietly(&format!("{minor} environment"), &mut create)?;
        let mut install = venv.pip_install();
        install.arg("-r").arg(workspace::root().join(REQUIREMENTS));
        quietly(&format!("{minor} packages"), &mut install)?;
        fs::write(&stamp_file, stamp).map_err(|error| format!("{}: {error}", stamp_file.display()))?;
        Ok(venv)
    }

    /// Deletes the environment of `base` and everything that was built for it. Errors are ignored, because nothing
    /// depends on the deletion.
    pub(crate) fn remove(base: &Interpreter) {
        let venv = Venv::of(base);
        for dir in [venv.dir.clone(), venv.cargo_target(), venv.wheels()] {
            let _ = fs::remove_dir_all(dir);
        }
    }

    /// Makes cargo build in the directory that is shared by all Pythons.
    pub(crate) fn with_shared_build(self) -> Venv {
        Venv { shares_build: true, ..self }
    }

    /// Deletes what was built for several Pythons. Errors are ignored, as in [`Venv::remove`].
    pub(crate) fn remove_shared_build() {
        let _ = fs::remove_dir_all(workspace::target().join(SHARED_BUILD));
    }

    fn of(base: &Interpreter) -> Venv {
        let dir = workspace::target().join("venv").join(base.minor.to_string());
        Venv { base: base.clone(), dir, shares_build: false }
    }

    /// Returns the path of the environment's interpreter.
    pub(crate) fn python(&self) -> PathBuf {
        self.dir.join("bin/python")
    }

    /// Returns a command that runs the environment's interpreter at the root of the checkout.
    pub(crate) fn python_command(&self) -> Command {
        let mut command = Command::new(self.python());
        command.current_dir(workspace::root()).env("VIRTUAL_ENV", &self.dir);
        for name in ["PYTHONHOME", "PYTHONPATH"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs a command in the environment, as `activate` does for a shell. Extensions are built for its interpreter.
    pub(crate) fn activate(&self, command: &mut Command) {
        let before = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([self.dir.join("bin")].into_iter().chain(std::env::split_paths(&before)));
        command.env("PATH", path.unwrap_or(before)).env("VIRTUAL_ENV", &self.dir).env("PYO3_PYTHON", self.python());
        for name in ["PYTHONHOME", "PYTHONPATH"] {
            command.env_remove(name);
        }
    }

    /// Returns the folder of the environment's packages.
    pub(crate) fn site_packages(&self) -> PathBuf {
        self.dir.join(format!("lib/python{}/site-packages", self.base.minor))
    }

    /// Returns cargo's target directory for this Python. Each Python has its own, because with a shared directory each
    /// switch between Pythons rebuilds all that depends on Python. If each Python is used once, a shared directory
    /// saves building the rest again.
    pub(crate) fn cargo_target(&self) -> PathBuf {
        if self.shares_build {
            return workspace::target().join(SHARED_BUILD);
        }
        workspace::target().join(format!("py{}", self.base.minor))
    }

    /// Returns the command that builds the wheel of sot for the systems of a compatibility policy.
    pub(crate) fn maturin(&self, wheels: &Path, policy: &str) -> Command {
        self.maturin_of(&workspace::root().join("sot-paddle/Cargo.toml"), wheels, policy)
    }

    /// Like [`Venv::maturin`], for another crate.
    pub(crate) fn maturin_of(&self, manifest: &Path, wheels: &Path, policy: &str) -> Command {
        let mut maturin = self.python_command();
        maturin.args(["-m", "maturin", "build", "--release", "--compatibility", policy]);
        maturin.arg("--manifest-path").arg(manifest);
        maturin.arg("--interpreter").arg(self.python());
        maturin.arg("--target-dir").arg(self.cargo_target());
        maturin.arg("--out").arg(wheels);
        maturin
    }

    pub(crate) fn pip_install(&self) -> Command {
        let mut pip = self.python_command();
        pip.args(["-m", "pip", "--disable-pip-version-check", "install"]);
        pip
    }

    /// Returns the interpreter and the requirements as text. If the text differs from that of the existing environment,
    /// the environment is made again.
    fn stamp(&self) -> Result<String, Failure> {
        let path = workspace::root().join(REQUIREMENTS);
        let requirements = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(format!("# {} {}\n{requirements}", self.base.version, self.base.executable.display()))
    }
}

/// Fails with the remedy if there is no C compiler, which Rust needs for linking.
pub(crate) fn require_c_compiler() -> Result<(), Failure> {
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let answers = Command::new(&cc).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if answers.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let cc = cc.to_string_lossy();
    Err(format!("No C compiler: `{cc}` does not run. Install one, for instance `apt install gcc`, or set CC."))
}

/// Returns the only wheel in a folder.
pub(crate) fn only_wheel(dir: &Path) -> Result<PathBuf, Failure> {
    let entries = dir.read_dir().map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut wheels =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "whl"));
    match (wheels.next(), wheels.next()) {
        (Some(wheel), None) => Ok(wheel),
        (found, _) => {
            let number = if found.is_some() { "more than one wheel" } else { "no wheel" };
            Err(format!("maturin left {number} in {}", dir.display()))
        }
    }
}
