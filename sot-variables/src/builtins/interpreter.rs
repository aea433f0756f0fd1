//! Settings of the interpreter: read while tracing, and guarded.

use pyo3::prelude::*;

use sot_core::backend::ObjectTest;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::guard::Test;

builtin! { RECURSION_LIMIT = "sys:getrecursionlimit" => |cx, args| {
    let [] = args.exactly("getrecursionlimit")?;
    let ask = cpython::import(cx.py, "sys")?.getattr("getrecursionlimit")?;
    let limit: i64 = ask.call0()?.extract()?;
    let tracker = cx.trace.trackers.constant(ask.unbind());
    cx.trace.guards.add(tracker, Test::Object(Box::new(RecursionLimit(limit))));
    cx.trace.integer(limit)
} }

/// Guard: the recursion limit is this. The guarded object is the function that returns the limit.
struct RecursionLimit(i64);

impl ObjectTest for RecursionLimit {
    fn check(&self, ask: &Bound<'_, PyAny>) -> bool {
        ask.call0().and_then(|limit| limit.extract::<i64>()).is_ok_and(|limit| limit == self.0)
    }

    fn describe(&self, _: &str) -> String {
        format!("sys.getrecursionlimit() == {}", self.0)
    }
}
