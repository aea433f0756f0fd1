//! `cargo xtask bench`: runs `benches/bench.py` on each interpreter. It measures and prints; it asserts no times.

use crate::demo::on_each_python;
use crate::options::Options;
use crate::Failure;

/// Runs the benchmark.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    on_each_python(options, &["benches/bench.py"])
}
