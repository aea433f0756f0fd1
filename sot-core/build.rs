//! Makes `cfg(Py_3_x)` of the interpreter being built for known to this crate.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
