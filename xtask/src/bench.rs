//! `cargo xtask bench`: runs `benches/bench.py` on each interpreter. It measures and prints times, and asserts none.

use crate::demo::on_each_python;
use crate::options::Options;
use crate::Failure;

/// Runs the benchmark on each interpreter.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    on_each_python(options, &["benches/bench.py"])
}
