//! Sizes of tensors' dimensions that a trace leaves open, so that one translation serves all of them. If a size
//! matters nevertheless, the trace is abandoned, and the next attempt and all later translations specialise on that
//! size. After some translations of that kind, the graph breaks where a size matters.

use pyo3::prelude::*;

use super::open_number::{paths_of, OpenNumber, OpenNumberOrigin};
use crate::backend::{MarkedDimensions, TensorMeta};
use crate::error::{ReasonId, Unwind};
use crate::log;
use crate::machine::executor::{OpcodeExecutor, Trace};
use crate::machine::variable::VarId;
use crate::open_sizes::OpenAtFirst;
use crate::tracker::{self, TrackerId};

impl OpcodeExecutor<'_> {
    /// True if the trace has left any size open.
    pub fn has_open_sizes(&self) -> bool {
        self.sizes.are_open()
    }

    /// The smallest size that is left open.
    pub fn least_open_size(&self) -> i64 {
        self.sizes.least
    }

    /// Makes the sizes that are to be left open unknown in the meta of a tensor from outside.
    pub fn leave_sizes_open(&mut self, tensor: &Bound<'_, PyAny>, tracker: TrackerId, meta: &mut TensorMeta) {
        if !self.trace.trackers.is_sourced(tracker) || self.runtime.backend().is_parameter(tensor) {
            return;
        }
        let marked = self.runtime.backend().eager_tensors().marked_dimensions(tensor);
        self.leave_axes_open(tracker, &marked, &mut meta.shape);
    }

    /// Makes the sizes that are to be left open unknown in the shape of a tensor or array from outside.
    pub fn leave_axes_open(&mut self, tracker: TrackerId, marked: &MarkedDimensions, shape: &mut [Option<i64>]) {
        let at_first = self.sizes.at_first;
        if self.sizes.wanted.is_empty() && marked.open.is_empty() && at_first == OpenAtFirst::Marked {
            return;
        }
        let path = self.trace.trackers.path(tracker);
        for (axis, size) in shape.iter_mut().enumerate() {
            let path = path.size(axis);
            let is_wanted = self.sizes.wanted.contains(&path) || at_first.holds(axis);
            let wanted = marked.open.contains(&axis) || is_wanted && !marked.assumed.contains(&axis);
            if wanted && !self.sizes.is_closed(path.clone()) && size.is_some_and(|size| size >= self.sizes.least) {
                *size = None;
                if !self.sizes.are_open() {
                    self.trace.graph.inputs.note_size_taken();
                }
                self.sizes.left_open.push(path);
            }
        }
    }

    /// Returns the unwind where a size matters: a restart if any size was left open, else `otherwise`. Where the trace
    /// is not to specialise on the size, a break of the graph is returned as it is.
    pub fn settle_sizes(&mut self, otherwise: Unwind) -> Unwind {
        let breaks = self.sizes.breaks() && matches!(otherwise, Unwind::BreakGraph(_));
        if breaks || !self.sizes.are_open() {
            return otherwise;
        }
        let why = match &otherwise {
            Unwind::BreakGraph(reason) => reason.text.clone(),
            Unwind::Internal(error) => error.value(self.py).to_string(),
            _ => String::new(),
        };
        if log::enabled(log::GRAPHS) {
            let paths: Vec<String> = self.sizes.left_open.iter().map(ToString::to_string).collect();
            log::write(log::GRAPHS, &format!("[Sizes]: from here on assumed: {}: {why}", paths.join(", ")));
        }
        let stack = self.stack.locations();
        self.note_sizes_abandoned(&why, &stack);
        self.sizes.close_all()
    }
}

/// Returns the unwind where the value of an open number is needed.
pub(in crate::machine::executor) fn needs(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Unwind {
    let text = match paths_of(cx, id) {
        Ok(Some(paths)) => {
            if !cx.sizes.breaks() {
                cx.sizes.left_open.retain(|path| paths.contains(path));
            }
            format!("{}, which differs from call to call, is needed as a number", described(&cx.trace, id))
        }
        Ok(None) => format!("{} is known only when the graph has run", described(&cx.trace, id)),
        Err(unwind) => return unwind,
    };
    cx.settle_sizes(Unwind::break_graph(ReasonId::TensorValue, text))
}

/// Returns the text of a number for people. It is the same in each translation, so that reasons can be counted.
fn described(trace: &Trace<'_>, id: VarId) -> String {
    let of = |tensor: VarId| match trace.vars.tracker(tensor) {
        tracker if trace.trackers.is_sourced(tracker) => trace.trackers.path(tracker).to_string(),
        _ => "<a result>".to_owned(),
    };
    let Some(number) = trace.vars.as_kind::<OpenNumber>(id) else {
        let known = trace.vars.get(id).constant().map(|known| tracker::repr(trace.py, known));
        return known.unwrap_or_else(|| "a number computed from sizes".to_owned());
    };
    match &number.origin {
        OpenNumberOrigin::Size(tensor, axis) => format!("{}.shape[{axis}]", of(*tensor)),
        OpenNumberOrigin::Binary(op, a, b) => {
            format!("({} {} {})", described(trace, *a), op.symbol(), described(trace, *b))
        }
        OpenNumberOrigin::Elements { tensor, name, .. } => format!("{}.{name}", of(*tensor)),
    }
}
