//! The Python part of the face, which is in the library: a loader serves it as modules of the package, behind whatever
//! files the package has.

use std::ffi::CString;

use pyo3::prelude::*;
use pyo3::types::PyDict;

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../python/", $name, ".py")))),*]
    };
}

/// Each module by its name.
const MODULES: &[(&str, &str)] = sources![
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
    "_run",
    "_stances",
    "psdb",
    "register",
];

const LOADER: &str = include_str!("../python/_loader.py");

/// Has the modules found in the package.
pub(crate) fn serve(py: Python<'_>, package: &str) -> PyResult<()> {
    let name = CString::new(format!("{package}._loader"))?;
    let source = CString::new(LOADER)?;
    let loader = PyModule::from_code(py, &source, c"<sot>/_loader.py", &name)?;
    let modules = PyDict::new(py);
    for (module, source) in MODULES {
        modules.set_item(module, source)?;
    }
    loader.call_method1("serve", (package, modules)).map(drop)
}
