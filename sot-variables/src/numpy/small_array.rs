//! Small numpy arrays from outside: results computed from an array are known, and its contents are guarded.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use sot_core::backend::{MarkedDimensions, ObjectTest};
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::guard::Test;
use sot_core::runtime::Runtime;
use sot_core::tracker::Tracker;
use sot_core::variable::{GraphArgument, VarId};

use crate::containers::list::ListVariable;
use crate::containers::tuple::TupleVariable;
use crate::numpy::array::{self, KnownArrays};

/// Maximum size in bytes of an array whose contents are guarded.
const MAX_BYTES: usize = 128;

/// Methods of arrays that only read, without the underscores.
const READERS: &[&str] = &[
    "float", "int", "bool", "complex", "index", "len", "getitem", "contains", "neg", "pos", "abs", "invert", "lt",
    "le", "eq", "ne", "gt", "ge", "item", "tolist", "sum", "mean", "min", "max", "any", "all", "prod", "argmax",
    "argmin", "std", "var",
];

/// Operators that have a method and a reflected method.
const OPERATORS: &[&str] = &[
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod", "lshift", "rshift", "and", "or", "xor",
    "matmul",
];

/// Guard: an array has the same element type, shape and contents.
struct ContentsTest {
    array: ArrayContents,
    text: String,
}

/// Element type, shape and contents of an array.
struct ArrayContents {
    dtype: Py<PyAny>,
    shape: Py<PyTuple>,
    bytes: Py<PyAny>,
}

impl ArrayContents {
    /// Returns the contents of a small array of numbers; `None` for other objects.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        if !is_of_numbers(object)? || object.getattr(intern!(py, "nbytes"))?.extract::<usize>()? > MAX_BYTES {
            return Ok(None);
        }
        let dtype = object.getattr(intern!(py, "dtype"))?.unbind();
        let shape = object.getattr(intern!(py, "shape"))?.cast_into::<PyTuple>()?.unbind();
        let bytes = object.call_method0(intern!(py, "tobytes"))?.unbind();
        Ok(Some(ArrayContents { dtype, shape, bytes }))
    }

    fn are_those_of(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = object.py();
        if !object.get_type().is(array_type(py)?) {
            return Ok(false);
        }
        let dtype = object.getattr(intern!(py, "dtype"))?;
        Ok((self.dtype.is(&dtype) || dtype.eq(&self.dtype)?)
            && object.getattr(intern!(py, "shape"))?.eq(&self.shape)?
            && object.call_method0(intern!(py, "tobytes"))?.eq(&self.bytes)?)
    }
}

impl ObjectTest for ContentsTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.array.are_those_of(object).unwrap_or(false)
    }

    fn describe(&self, subject: &str) -> String {
        format!("{subject} holds {}", self.text)
    }
}

/// Returns `numpy.ndarray`.
pub fn array_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let find = || PyResult::Ok(cpython::import(py, "numpy")?.getattr("ndarray")?.cast_into()?.unbind());
    ARRAY.get_or_try_init(py, find).map(|ty| ty.bind(py))
}

/// True if the object is a numpy array. Does not import numpy.
fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    // Other classes may have that name, also where numpy is not installed.
    let ty = object.get_type();
    let may_be = cpython::builtin_type_name(object) == "ndarray" && ty.module().is_ok_and(|module| module == "numpy");
    Ok(may_be && ty.is(array_type(object.py())?))
}

/// True if the object is an array of numbers that is not a tensor of the backend. Operations on it run no code of the
/// program.
pub(crate) fn is_of_numbers(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if !is_array(object)? || Runtime::get().is_some_and(|runtime| runtime.backend().is_tensor(object)) {
        return Ok(false);
    }
    let kind: String = object.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "kind"))?.extract()?;
    Ok(matches!(kind.as_str(), "b" | "i" | "u" | "f"))
}

/// The length of an array from outside, which is its first size; `None` for other objects. The contents of the array
/// are not guarded.
pub(crate) fn len(cx: &mut OpcodeExecutor<'_>, array: VarId) -> Flow<Option<VarId>> {
    let Some(object) = cx.trace.vars.get(array).object().map(|object| object.bind(cx.py).clone()) else {
        return Ok(None);
    };
    let is_outside = cx.trace.trackers.is_sourced(cx.trace.vars.tracker(array));
    if !is_outside || !is_of_numbers(&object)? || sizes(&object)?.is_empty() {
        return Ok(None);
    }
    cx.see(array)?;
    let shape = cx.get_attr(array, &"shape".into())?;
    let first = cx.trace.integer(0)?;
    cx.get_item(shape, first).map(Some)
}

/// True if the function is a method of arrays that only reads.
pub(crate) fn reads(function: &Bound<'_, PyAny>) -> bool {
    let found = || -> PyResult<bool> {
        let Some(owner) = function.getattr_opt(intern!(function.py(), "__objclass__"))? else { return Ok(false) };
        if !owner.cast::<PyType>().is_ok_and(|owner| owner.module().is_ok_and(|module| module == "numpy"))
            || !owner.is(array_type(function.py())?)
        {
            return Ok(false);
        }
        let name: String = function.getattr(intern!(function.py(), "__name__"))?.extract()?;
        let plain = name.trim_matches('_');
        let is_operator =
            || OPERATORS.contains(&plain) || plain.strip_prefix('r').is_some_and(|op| OPERATORS.contains(&op));
        Ok(READERS.contains(&plain) || name != plain && is_operator())
    };
    found().unwrap_or(false)
}

/// Arguments as real objects. Arrays are replaced by copies, which the call may write.
pub(crate) struct Arguments<'py> {
    pub(crate) positional: Bound<'py, PyTuple>,
    pub(crate) keywords: Bound<'py, PyDict>,
    given: ArgumentCopies<'py>,
}

/// The copies among the arguments.
#[derive(Default)]
struct ArgumentCopies<'py> {
    outside: Vec<SmallArray<'py>>,
    owners: Vec<MemoryOwner<'py>>,
    views: Vec<(VarId, Bound<'py, PyAny>)>,
}

struct SmallArray<'py> {
    variable: VarId,
    contents: ArrayContents,
    copy: Bound<'py, PyAny>,
}

/// An array made in the trace that owns its memory.
struct MemoryOwner<'py> {
    variable: VarId,
    before: Bound<'py, PyAny>,
    copy: Bound<'py, PyAny>,
}

impl<'py> Arguments<'py> {
    /// Returns the arguments of a call, if all of them are known or small arrays from outside. `settle` adds guards
    /// on the contents of the latter.
    pub(crate) fn of(cx: &mut OpcodeExecutor<'py>, args: &CallArgs) -> Flow<Option<Arguments<'py>>> {
        let mut given = ArgumentCopies::default();
        let mut positional = Vec::new();
        for &arg in &args.positional {
            let Some(value) = given.argument(cx, arg)? else { return Ok(None) };
            positional.push(value);
        }
        let keywords = PyDict::new(cx.py);
        for (name, arg) in &args.keywords {
            let Some(value) = given.argument(cx, *arg)? else { return Ok(None) };
            keywords.set_item(&**name, value)?;
        }
        Ok(Some(Arguments { positional: PyTuple::new(cx.py, positional)?, keywords, given }))
    }

    /// Ends a call. Writes to copies become the new contents of arrays made in the trace, and the contents of arrays
    /// from outside are guarded. Returns the real arrays with their variables. Returns `None` if the call has written
    /// an array from outside, or changed the layout of an array.
    pub(crate) fn settle(self, cx: &mut OpcodeExecutor<'py>) -> Flow<Option<KnownArrays<'py>>> {
        let mut known = KnownArrays::default();
        let ArgumentCopies { outside, owners, views } = self.given;
        for SmallArray { variable, contents, copy } in outside {
            if !contents.are_those_of(&copy)? {
                return Ok(None);
            }
            let test = ContentsTest { array: contents, text: copy.to_string().replace('\n', "") };
            cx.trace.guards.add(cx.trace.vars.tracker(variable), Test::Object(Box::new(test)));
            known.foreign.push(copy);
        }
        for (variable, view) in views {
            let Some((_, _, before)) = array::real(&cx.trace, variable)? else { return Ok(None) };
            if !array::are_alike(&before, &view)? {
                return Ok(None);
            }
            known.arrays.push((view, variable));
        }
        for MemoryOwner { variable, before, copy } in owners {
            if !array::are_alike(&before, &copy)? {
                return Ok(None);
            }
            let bytes = |array: &Bound<'py, PyAny>| array.call_method1(intern!(cx.py, "tobytes"), ("A",));
            if !bytes(&before)?.eq(bytes(&copy)?)? {
                array::charge(cx, &copy)?;
                array::replace(cx, variable, &copy);
            }
            known.arrays.push((copy, variable));
        }
        Ok(Some(known))
    }
}

/// Guard: an array has the same element type and shape, whatever its contents.
struct ShapeAndTypeTest {
    dtype: Py<PyAny>,
    /// The sizes; `None` for open ones.
    shape: Vec<Option<i64>>,
    /// The least size that an open one may have.
    least: i64,
    /// Pairs of open sizes that are equal.
    ties: Vec<(usize, usize)>,
}

impl ObjectTest for ShapeAndTypeTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.passes(object).unwrap_or(false)
    }

    fn differing_sizes(&self, object: &Bound<'_, PyAny>) -> Vec<usize> {
        self.differing(object).unwrap_or_default()
    }

    fn describe(&self, subject: &str) -> String {
        let size = |size: &Option<i64>| size.map_or_else(|| "?".to_owned(), |size| size.to_string());
        let sizes = self.shape.iter().map(size).collect::<Vec<_>>().join(", ");
        format!("{subject} is an array of {} ({sizes})", self.dtype)
    }
}

impl ShapeAndTypeTest {
    fn of(array: &Bound<'_, PyAny>, shape: Vec<Option<i64>>, least: i64) -> PyResult<Self> {
        let sizes = sizes(array)?;
        let open: Vec<usize> = (0..shape.len()).filter(|axis| shape[*axis].is_none()).collect();
        let later = |at: usize| open.iter().skip(at + 1);
        let tie = |(at, axis): (usize, &usize)| {
            later(at).find(|other| sizes[**other] == sizes[*axis]).map(|other| (*axis, *other))
        };
        let ties = open.iter().enumerate().filter_map(tie).collect();
        let dtype = array.getattr(intern!(array.py(), "dtype"))?.unbind();
        Ok(ShapeAndTypeTest { dtype, shape, least, ties })
    }

    /// True if an object is an array of the same element type and number of dimensions.
    fn is_alike(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = object.py();
        if !object.get_type().is(array_type(py)?) {
            return Ok(false);
        }
        let own = object.getattr(intern!(py, "dtype"))?;
        Ok((self.dtype.is(&own) || own.eq(&self.dtype)?) && sizes(object)?.len() == self.shape.len())
    }

    fn passes(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if !self.is_alike(object)? {
            return Ok(false);
        }
        let sizes = sizes(object)?;
        let fits = |(expected, size): (&Option<i64>, &i64)| expected.map_or(*size >= self.least, |own| own == *size);
        Ok(self.shape.iter().zip(&sizes).all(fits) && self.ties.iter().all(|(a, b)| sizes[*a] == sizes[*b]))
    }

    /// The axes whose sizes are not the expected ones; none if anything else differs.
    fn differing(&self, object: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        if !self.is_alike(object)? {
            return Ok(Vec::new());
        }
        let pairs = self.shape.iter().zip(sizes(object)?).enumerate();
        Ok(pairs
            .filter(|(_, (expected, size))| expected.is_some_and(|own| own != *size))
            .map(|(axis, _)| axis)
            .collect())
    }
}

/// The sizes of an array.
fn sizes(array: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    array.getattr(intern!(array.py(), "shape"))?.extract()
}

/// Makes the array an input of the graph, for statements that accept arrays, so its contents may differ from call to
/// call. Returns `None` for other objects, and for small arrays that are not arguments of the program: their contents
/// are guarded.
pub(crate) fn graph_input(cx: &mut OpcodeExecutor<'_>, array: VarId) -> Flow<Option<GraphArgument>> {
    let Some(object) = cx.trace.vars.get(array).object().map(|object| object.bind(cx.py).clone()) else {
        return Ok(None);
    };
    let tracker = cx.trace.vars.tracker(array);
    if !is_of_numbers(&object)? || !cx.trace.trackers.is_sourced(tracker) {
        return Ok(None);
    }
    let is_large = || PyResult::Ok(object.getattr(intern!(cx.py, "nbytes"))?.extract::<usize>()? > MAX_BYTES);
    if !cx.trace.trackers.is_argument(tracker) && !cx.trace.differs_too_often(tracker) && !is_large()? {
        return Ok(None);
    }
    if !cx.takes_arrays() {
        return Ok(None);
    }
    let mut shape: Vec<Option<i64>> = sizes(&object)?.into_iter().map(Some).collect();
    cx.leave_axes_open(tracker, &MarkedDimensions::default(), &mut shape);
    let Some(input) = cx.array_input(array, &object, &shape)? else { return Ok(None) };
    let test = ShapeAndTypeTest::of(&object, shape, cx.least_open_size())?;
    cx.trace.guards.add(tracker, Test::Object(Box::new(test)));
    Ok(Some(input))
}

/// Returns the current contents of a small array as an argument of a statement, and guards them. Returns `None` for
/// other values.
pub(crate) fn graph_argument<'py>(cx: &mut OpcodeExecutor<'py>, array: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    if !cx.trace.vars.get(array).object().map(|object| is_array(object.bind(cx.py))).transpose()?.unwrap_or(false) {
        return Ok(None);
    }
    let mut given = ArgumentCopies::default();
    let Some(copy) = given.outside(cx, array)? else { return Ok(None) };
    let known = cx.runtime.backend().constants().known_data(&copy)?;
    let arguments = Arguments { positional: PyTuple::empty(cx.py), keywords: PyDict::new(cx.py), given };
    Ok(arguments.settle(cx)?.and(known))
}

impl<'py> ArgumentCopies<'py> {
    fn argument(&mut self, cx: &mut OpcodeExecutor<'py>, arg: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
        if let Some(value) = cx.materialize(arg)? {
            return Ok(Some(value));
        }
        if let Some((owner, base, view)) = array::real(&cx.trace, arg)? {
            return self.made(cx, arg, (owner, base, view)).map(Some);
        }
        if let Some(tuple) = cx.see_as::<TupleVariable>(arg)? {
            let is_plain = cx.type_of(arg)?.is(cx.py.get_type::<PyTuple>());
            let items = if is_plain { self.items(cx, &tuple.items)? } else { None };
            return Ok(items.map(|items| PyTuple::new(cx.py, items)).transpose()?.map(Bound::into_any));
        }
        if let Some(list) = cx.see_as::<ListVariable>(arg)? {
            let items = self.items(cx, &list.items)?;
            return Ok(items.map(|items| PyList::new(cx.py, items)).transpose()?.map(Bound::into_any));
        }
        self.outside(cx, arg)
    }

    fn items(&mut self, cx: &mut OpcodeExecutor<'py>, items: &[VarId]) -> Flow<Option<Vec<Bound<'py, PyAny>>>> {
        items.iter().map(|&item| self.argument(cx, item)).collect()
    }

    /// Returns an array made in the trace, on a copy of its memory.
    fn made(
        &mut self,
        cx: &mut OpcodeExecutor<'py>,
        arg: VarId,
        (variable, before, view): (VarId, Bound<'py, PyAny>, Bound<'py, PyAny>),
    ) -> Flow<Bound<'py, PyAny>> {
        if let Some((_, known)) = self.views.iter().find(|(known, _)| *known == arg) {
            return Ok(known.clone());
        }
        let copy = match self.owners.iter().find(|owner| owner.variable == variable) {
            Some(owner) => owner.copy.clone(),
            None => {
                array::charge(cx, &before)?;
                let copy = array::copy(&before)?;
                self.owners.push(MemoryOwner { variable, before: before.clone(), copy: copy.clone() });
                copy
            }
        };
        if view.is(&before) {
            return Ok(copy);
        }
        let view = array::on(&cx.trace, arg, &copy)?;
        self.views.push((arg, view.clone()));
        Ok(view)
    }

    fn outside(&mut self, cx: &mut OpcodeExecutor<'py>, arg: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
        if let Some(known) = self.outside.iter().find(|known| known.variable == arg) {
            return Ok(Some(known.copy.clone()));
        }
        let tracker = cx.trace.vars.tracker(arg);
        let Some(object) = cx.trace.vars.get(arg).object().map(|object| object.bind(cx.py).clone()) else {
            return Ok(None);
        };
        // Behind a break, a local variable usually holds a result computed before the break, so its contents are new
        // in each call.
        let is_new = cx.trace.is_resumed() && matches!(cx.trace.trackers.get(tracker), Tracker::Local { .. });
        if is_new || !cx.trace.trackers.is_sourced(tracker) || cx.trace.differs_too_often(tracker) {
            return Ok(None);
        }
        let Some(contents) = ArrayContents::of(&object)? else { return Ok(None) };
        let copy = object.call_method0(intern!(cx.py, "copy"))?;
        self.outside.push(SmallArray { variable: arg, contents, copy: copy.clone() });
        Ok(Some(copy))
    }
}
