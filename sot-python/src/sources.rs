//! The Python part of the interface, which is in the library: a loader serves it as modules of the package. Files of
//! the package come first.

use std::ffi::CString;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A module that the loader serves.
struct Served {
    name: &'static str,
    source: &'static str,
    /// Its compiled code; empty if the build could not compile it.
    code: &'static [u8],
}

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(Served {
            name: $name,
            source: include_str!(concat!("../python/", $name, ".py")),
            code: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".code")),
        }),*]
    };
}

/// The magic number of the bytecode that the build has compiled to (`importlib.util.MAGIC_NUMBER`).
const MAGIC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/magic"));

const MODULES: &[Served] = sources![
    "_backends",
    "_breaks",
    "_compiling",
    "_config",
    "_counts",
    "_disable",
    "_face",
    "_linked",
    "_logs",
    "_names",
    "_plugins",
    "_progress",
    "_registration",
    "_report",
    "_report_files",
    "_report_summary",
    "_report_trace",
    "_run",
    "_stances",
    "psdb",
    "register",
];

const LOADER: &str = include_str!("../python/_loader.py");

/// Makes the modules importable from the package.
pub(crate) fn serve(py: Python<'_>, package: &str) -> PyResult<()> {
    let name = CString::new(format!("{package}._loader"))?;
    let source = CString::new(LOADER)?;
    let loader = PyModule::from_code(py, &source, c"<sot>/_loader.py", &name)?;
    let (sources, codes) = (PyDict::new(py), PyDict::new(py));
    for module in MODULES {
        sources.set_item(module.name, module.source)?;
        codes.set_item(module.name, PyBytes::new(py, module.code))?;
    }
    loader.call_method1("serve", (package, sources, codes, PyBytes::new(py, MAGIC))).map(drop)
}
