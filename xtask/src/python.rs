//! Finds the Python interpreters of this machine, and asks each for its version, paths and modules.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;

/// A minor version of Python 3: `Minor(11)` is 3.11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Minor(pub(crate) u8);

impl Minor {
    /// Every version the tracer supports, oldest first.
    pub(crate) fn supported() -> impl Iterator<Item = Minor> {
        (8..=13).map(Minor)
    }

    /// Parses `3.x` if that version is supported.
    pub(crate) fn parse(text: &str) -> Option<Minor> {
        let minor = Minor(text.strip_prefix("3.")?.parse().ok()?);
        Minor::supported().any(|known| known == minor).then_some(minor)
    }

    /// `3.8, 3.9, …` for messages.
    pub(crate) fn list(minors: impl IntoIterator<Item = Minor>) -> String {
        minors.into_iter().map(|minor| minor.to_string()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "3.{}", self.0)
    }
}

/// An interpreter that was found and examined.
#[derive(Debug, Clone)]
pub(crate) struct Interpreter {
    pub(crate) minor: Minor,
    /// The full version, such as `3.11.7`.
    pub(crate) version: String,
    pub(crate) executable: PathBuf,
    /// Value of `PYTHONHOME` for programs that embed this interpreter.
    pub(crate) home: String,
    /// Folder of the interpreter's shared library. `None` if it was built without one; no program can then embed it.
    pub(crate) library_dir: Option<PathBuf>,
    /// True if the interpreter's executable itself uses the shared library. If not, an extension that links the library
    /// would load a second Python into the process.
    pub(crate) runs_from_library: bool,
    /// True if `python -m venv` works. Some distributions have it in a separate package.
    has_venv: bool,
}

/// The interpreters to use, oldest first, and the versions that were wanted but not found.
pub(crate) struct Found {
    pub(crate) interpreters: Vec<Interpreter>,
    pub(crate) missing: Vec<Minor>,
}

/// Looks for the `wanted` versions; an empty list means every supported one.
pub(crate) fn find(wanted: &[Minor]) -> Result<Found, Failure> {
    let wanted: Vec<Minor> = if wanted.is_empty() { Minor::supported().collect() } else { wanted.to_vec() };
    let mut answered: Vec<Interpreter> = candidates().iter().filter_map(|path| ask(path)).collect();
    // The sort is stable: among equal interpreters, the first one on PATH is used.
    answered.sort_by_key(|found| (found.minor, !found.has_venv, found.library_dir.is_none()));
    answered.dedup_by_key(|found| found.minor);
    answered.retain(|found| wanted.contains(&found.minor));
    let missing: Vec<Minor> =
        wanted.into_iter().filter(|minor| answered.iter().all(|found| found.minor != *minor)).collect();
    if answered.is_empty() {
        return Err(nothing_found(&missing));
    }
    Ok(Found { interpreters: answered, missing })
}

impl Interpreter {
    /// Fails with the remedy if no virtual environment can be made.
    pub(crate) fn require_venv(&self) -> Result<(), Failure> {
        if self.has_venv {
            return Ok(());
        }
        let (executable, minor) = (self.executable.display(), self.minor);
        Err(format!(
            "{executable} lacks the venv or ensurepip module; on Debian and Ubuntu: apt install python{minor}-venv"
        ))
    }
}

fn nothing_found(missing: &[Minor]) -> Failure {
    format!(
        "No CPython {} was found: looked for python3.x and python3 on PATH and below $PYENV_ROOT or ~/.pyenv.\n\
         Install one, for instance `apt install python3 python3-venv` or `pyenv install 3.12`.",
        missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
    )
}

/// Returns all files that may be an interpreter, preferred ones first.
fn candidates() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut found: Vec<PathBuf> =
        Minor::supported().flat_map(|minor| dirs.iter().map(move |dir| dir.join(format!("python{minor}")))).collect();
    found.extend(pyenv_interpreters());
    found.extend(dirs.iter().map(|dir| dir.join("python3")));
    found.retain(|path| path.is_file());
    found
}

/// Returns pyenv's `versions/*/bin/python3`, newest patch release first.
fn pyenv_interpreters() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
    let Some(pyenv) = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or(home) else {
        return Vec::new();
    };
    let Ok(entries) = pyenv.join("versions").read_dir() else {
        return Vec::new();
    };
    let mut versions: Vec<(Vec<u32>, PathBuf)> = entries
        .flatten()
        .map(|entry| (numbers(&entry.file_name().to_string_lossy()), entry.path().join("bin/python3")))
        .collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, path)| path).collect()
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// A script that prints one answer per line, in the order in which `parse_answer` reads them. In a virtual environment,
/// the answers are about the Python that it was made from.
const QUESTIONS: &str = "
import importlib.util, os, platform, sys, sysconfig
base = os.path.join(sys.base_prefix, 'bin', 'python%d.%d' % sys.version_info[:2])
get = lambda name: sysconfig.get_config_var(name) or ''
places = [get('LIBDIR'), os.path.join(get('LIBDIR'), get('MULTIARCH')), get('LIBPL')]
shared = [d for d in places if d and get('Py_ENABLE_SHARED') and os.path.exists(os.path.join(d, get('LDLIBRARY')))]
print('%s %s' % (platform.python_implementation(), 'free-threaded' if get('Py_GIL_DISABLED') else 'GIL'))
print('%d.%d.%d' % sys.version_info[:3])
print(base if sys.prefix != sys.base_prefix and os.path.exists(base) else sys.executable)
print(sys.base_prefix if sys.base_prefix == sys.base_exec_prefix else sys.base_prefix + ':' + sys.base_exec_prefix)
print(shared[0] if shared else '')
print(bool(shared) and 'libpython' in open('/proc/self/maps').read())
print(all(importlib.util.find_spec(name) for name in ('venv', 'ensurepip')))
";

fn ask(path: &Path) -> Option<Interpreter> {
    let answer = Command::new(path)
        .args(["-E", "-s", "-c", QUESTIONS])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|answer| answer.status.success())?;
    parse_answer(&String::from_utf8_lossy(&answer.stdout))
}

fn parse_answer(answer: &str) -> Option<Interpreter> {
    let mut lines = answer.lines();
    if lines.next()? != "CPython GIL" {
        return None;
    }
    let version = lines.next()?;
    let (major_minor, _patch) = version.rsplit_once('.')?;
    Some(Interpreter {
        minor: Minor::parse(major_minor)?,
        version: version.to_owned(),
        executable: PathBuf::from(lines.next()?),
        home: lines.next()?.to_owned(),
        library_dir: lines.next().filter(|dir| !dir.is_empty()).map(PathBuf::from),
        runs_from_library: lines.next()? == "True",
        has_venv: lines.next()? == "True",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_supported_versions_parse() {
        assert_eq!(Minor::parse("3.8"), Some(Minor(8)));
        assert_eq!(Minor::parse("3.13"), Some(Minor(13)));
        for wrong in ["3.7", "3.14", "3.", "2.7", "12", "3.12.1"] {
            assert_eq!(Minor::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_read_and_others_are_refused() {
        let answer = "CPython GIL\n3.12.1\n/usr/bin/python3.12\n/usr\n\nFalse\nTrue\n";
        let python = parse_answer(answer).expect("supported");
        assert_eq!((python.minor, python.version.as_str()), (Minor(12), "3.12.1"));
        assert!(python.library_dir.is_none() && !python.runs_from_library && python.has_venv);
        assert!(parse_answer(&answer.replace("CPython", "PyPy")).is_none());
        assert!(parse_answer(&answer.replace("GIL", "free-threaded")).is_none());
        assert!(parse_answer(&answer.replace("3.12.1", "3.7.16")).is_none());
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("3.12.10") > numbers("3.12.9"));
        assert!(numbers("pypy3.9").is_empty());
    }
}
