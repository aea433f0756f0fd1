//! What a trace assumes about tensors: reads metas of eager tensors and graph values, and tests them at later calls.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use sot_core::backend::{GradientFlow, MarkedDimensions, ObjectTest, TensorMeta, TestKey};
use sot_core::cpython::{self, Getter, Place, Recorder};

use crate::backend::paddle::layout::{distribution, layout, Distribution, Layout};
use crate::backend::paddle::Paddle;

/// Reads attributes of eager tensors by Paddle's own getters, even if the program has replaced an attribute of the
/// tensor type.
pub(crate) struct TensorGetters {
    stop_gradient: AttributeReader,
    dtype: AttributeReader,
    shape: AttributeReader,
    place: AttributeReader,
    is_dense: Py<PyAny>,
    is_dist: Py<PyAny>,
    /// Objects of element types that tensors have returned, by Paddle's number of the element type.
    dtypes: Mutex<Vec<(i32, Py<PyAny>)>>,
}

impl TensorGetters {
    /// Makes the readers for a tensor type.
    pub(crate) fn of(tensor_type: &Bound<'_, PyType>) -> PyResult<Self> {
        let reader = |name| AttributeReader::new(tensor_type, name);
        Ok(TensorGetters {
            stop_gradient: reader("stop_gradient"),
            dtype: reader("dtype"),
            shape: reader("shape"),
            place: reader("place"),
            is_dense: tensor_type.getattr("is_dense")?.unbind(),
            is_dist: tensor_type.getattr("is_dist")?.unbind(),
            dtypes: Mutex::default(),
        })
    }

    /// Returns the element type of a tensor. `number` is Paddle's number of the element type, if it can be read
    /// natively.
    fn dtype<'py>(&self, tensor: &Bound<'py, PyAny>, number: Option<i32>) -> PyResult<Bound<'py, PyAny>> {
        let Some(number) = number else { return self.dtype.get(tensor) };
        let dtypes = || self.dtypes.lock();
        let known = dtypes().iter().find(|(known, _)| *known == number).map(|(_, dtype)| dtype.clone_ref(tensor.py()));
        if let Some(known) = known {
            return Ok(known.into_bound(tensor.py()));
        }
        let dtype = self.dtype.get(tensor)?;
        dtypes().push((number, dtype.clone().unbind()));
        Ok(dtype)
    }

    fn shape(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
        self.shape.get(tensor)?.extract()
    }

    /// Returns the layout of an eager tensor; `None` for sparse tensors and others.
    pub(super) fn layout(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Layout>> {
        let is = |question: &Py<PyAny>| question.bind(tensor.py()).call1((tensor,))?.is_truthy();
        if is(&self.is_dense)? {
            return Ok(Some(Layout::Dense));
        }
        Ok(is(&self.is_dist)?.then_some(Layout::Distributed))
    }
}

/// Reads one attribute of objects of one type.
enum AttributeReader {
    Getter(Getter),
    Attribute(Py<PyString>),
}

impl AttributeReader {
    fn new(ty: &Bound<'_, PyType>, name: &str) -> Self {
        let name = PyString::intern(ty.py(), name);
        Getter::find(ty, &name).map_or_else(|| AttributeReader::Attribute(name.unbind()), AttributeReader::Getter)
    }

    fn get<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            AttributeReader::Getter(getter) => {
                getter.get(object).ok_or_else(|| PyTypeError::new_err("an attribute of a tensor cannot be read"))
            }
            AttributeReader::Attribute(name) => object.getattr(name.bind(object.py())),
        }
    }
}

/// Returns the meta of an eager tensor. Raises `TypeError` for sparse tensors and others without a known layout. The
/// shape of a distributed tensor is that of the whole tensor.
pub(crate) fn of_tensor(paddle: &Paddle, tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
    if !paddle.is_tensor(tensor) {
        return Err(PyTypeError::new_err(format!("{} is no tensor", tensor.get_type())));
    }
    let facts = &paddle.facts;
    if let Some((shape, number)) = paddle.native.as_ref().and_then(|native| native.meta(tensor)) {
        return meta(shape, &facts.dtype(tensor, Some(number))?, &facts.stop_gradient.get(tensor)?);
    }
    if facts.layout(tensor)?.is_none() {
        return Err(PyTypeError::new_err("only dense and distributed tensors can be part of a graph"));
    }
    meta(facts.shape(tensor)?, &facts.dtype.get(tensor)?, &facts.stop_gradient.get(tensor)?)
}

/// Returns the meta of a graph value; `None` for any other object.
pub(crate) fn of_value(paddle: &Paddle, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>> {
    if paddle.is_value(object) {
        let py = object.py();
        let shape = object.getattr(intern!(py, "shape"))?.extract()?;
        let (dtype, stop_gradient) = (intern!(py, "dtype"), intern!(py, "stop_gradient"));
        meta(shape, &object.getattr(dtype)?, &object.getattr(stop_gradient)?).map(Some)
    } else {
        Ok(None)
    }
}

/// The gradient flag, with the attribute that Paddle has for it.
fn gradient(flows: bool) -> GradientFlow {
    GradientFlow { flows, attribute: Some(("stop_gradient", false)) }
}

fn meta(shape: Vec<i64>, dtype: &Bound<'_, PyAny>, stop_gradient: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
    Ok(TensorMeta {
        shape: shape.into_iter().map(|size| (size >= 0).then_some(size)).collect(),
        dtype: dtype_name(dtype)?,
        gradient: gradient(!stop_gradient.is_truthy()?),
    })
}

/// The graph values in an object: the object itself, or items of tuples, lists and dicts, at any depth.
pub(crate) fn values_in<'py>(paddle: &Paddle, object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    values_within(paddle, object, &mut Vec::new())
}

/// `around` has the addresses of the containers that the object is in, as a list may hold itself.
fn values_within<'py>(
    paddle: &Paddle,
    object: &Bound<'py, PyAny>,
    around: &mut Vec<usize>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if paddle.is_value(object) {
        return Ok(vec![object.clone()]);
    }
    let parts: Vec<Bound<'py, PyAny>> = if let Ok(items) = object.cast::<PyTuple>() {
        items.iter().collect()
    } else if let Ok(items) = object.cast::<PyList>() {
        items.iter().collect()
    } else if let Ok(items) = object.cast::<PyDict>() {
        items.values().iter().collect()
    } else {
        return Ok(Vec::new());
    };
    let address = object.as_ptr() as usize;
    if around.contains(&address) {
        return Ok(Vec::new());
    }
    around.push(address);
    let nested = parts.iter().map(|part| values_within(paddle, part, around)).collect::<PyResult<Vec<_>>>()?;
    around.pop();
    Ok(nested.into_iter().flatten().collect())
}

/// `float32` for `paddle.float32`.
pub(crate) fn dtype_name(dtype: &Bound<'_, PyAny>) -> PyResult<Rc<str>> {
    thread_local! {
        /// Data types with their numbers and names. Paddle computes the name in Python each time.
        static NAMES: RefCell<Vec<(Py<PyAny>, u32, Rc<str>)>> = const { RefCell::new(Vec::new()) };
    }
    let find = |is_it: &dyn Fn(&Py<PyAny>, u32) -> bool| {
        let known = |names: &Vec<(Py<PyAny>, u32, Rc<str>)>| {
            names.iter().find(|(object, number, _)| is_it(object, *number)).map(|(.., name)| Rc::clone(name))
        };
        NAMES.with_borrow(known)
    };
    if let Some(name) = find(&|object, _| dtype.is(object)) {
        return Ok(name);
    }
    let py = dtype.py();
    // Graph values return a new data type object at each read.
    let is_known_type = |object: &Py<PyAny>, _| object.bind(py).get_type().is(dtype.get_type());
    let is_paddles = find(&is_known_type).is_some()
        || dtype.get_type().is(cpython::import(py, "paddle")?.getattr(intern!(py, "dtype"))?);
    let number: Option<u32> = if is_paddles { dtype.getattr(intern!(py, "value"))?.extract().ok() } else { None };
    if let Some(name) = number.and_then(|number| find(&|_, known| known == number)) {
        return Ok(name);
    }
    let text = dtype.str()?;
    let text = text.to_str()?;
    let name: Rc<str> = text.strip_prefix("paddle.").unwrap_or(text).into();
    if let Some(number) = number {
        NAMES.with_borrow_mut(|names| names.push((dtype.clone().unbind(), number, Rc::clone(&name))));
    }
    Ok(name)
}

/// Returns the dimensions of a tensor that `sot.mark_dynamic`, `sot.mark_static` or `paddle.jit.marker.dynamic_dims`
/// has marked.
pub(crate) fn marked_dimensions(tensor: &Bound<'_, PyAny>) -> MarkedDimensions {
    let py = tensor.py();
    MarkedDimensions {
        open: mark(tensor, intern!(py, "__sot_dynamic_dims")).unwrap_or_default(),
        assumed: mark(tensor, intern!(py, "__sot_static_dims")).unwrap_or_default(),
    }
}

/// Ranges of sizes that a translation for the tensor may serve, by dimension: `sot.mark_dynamic(t, dim, min=, max=)`.
fn marked_ranges(tensor: &Bound<'_, PyAny>) -> Vec<(usize, i64, i64)> {
    mark(tensor, intern!(tensor.py(), "__sot_dim_ranges")).unwrap_or_default()
}

fn mark<'py, T: FromPyObjectOwned<'py>>(tensor: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Option<T> {
    cpython::instance_dict(tensor)?.get_item(name).ok().flatten()?.extract().ok()
}

/// Stands for an open size in a shape.
const OPEN: i64 = -1;

/// A test for tensors of the same type, layout, shape, element type, gradient flag and place.
pub(crate) struct TensorTest {
    paddle: Arc<Paddle>,
    exact_type: Py<PyType>,
    shape: Vec<i64>,
    /// Smallest size that passes in open dimensions; `None` if no dimension is open.
    least: Option<i64>,
    /// Pairs of open dimensions that must have equal sizes, because functions compare sizes of a tensor with each
    /// other.
    ties: Vec<(usize, usize)>,
    /// Open dimensions with the smallest and largest size that passes.
    ranges: Vec<(usize, i64, i64)>,
    /// Paddle's number of the element type, if it can be read natively.
    dtype_number: Option<i32>,
    dtype: Py<PyAny>,
    layout: Option<Layout>,
    distribution: Option<Distribution>,
    stop_gradient: bool,
    /// `None` if tensors can have only one place.
    place: Option<Py<PyAny>>,
}

impl TensorTest {
    /// Makes the test that `tensor`, which has this meta, passes now.
    pub(crate) fn new(
        paddle: &Arc<Paddle>,
        tensor: &Bound<'_, PyAny>,
        meta: &TensorMeta,
        least: i64,
    ) -> PyResult<Self> {
        let place = match paddle.only_place {
            Some(_) => None,
            None => Some(paddle.facts.place.get(tensor)?),
        };
        let is_open = |axis: usize| meta.shape.get(axis) == Some(&None);
        let ranges: Vec<_> = marked_ranges(tensor).into_iter().filter(|(axis, ..)| is_open(*axis)).collect();
        let dtype_number = paddle.native.as_ref().and_then(|native| native.dtype(tensor));
        Ok(TensorTest {
            ranges,
            shape: meta.shape.iter().map(|size| size.unwrap_or(OPEN)).collect(),
            least: meta.shape.contains(&None).then_some(least),
            ties: ties(&paddle.facts, tensor, meta)?,
            dtype: paddle.facts.dtype(tensor, dtype_number)?.unbind(),
            layout: layout(paddle, tensor)?,
            distribution: distribution(paddle, tensor)?,
            stop_gradient: !meta.gradient.flows,
            place: place.map(Bound::unbind),
            dtype_number,
            paddle: Arc::clone(paddle),
            exact_type: tensor.get_type().unbind(),
        })
    }

    /// Describes the tensors that pass, for messages.
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        let meta = TensorMeta {
            shape: self.shape.iter().map(|size| (*size != OPEN).then_some(*size)).collect(),
            dtype: dtype_name(self.dtype.bind(py))?,
            gradient: gradient(!self.stop_gradient),
        };
        let mut text = format!("{meta}, type: {}", self.exact_type.bind(py).qualname()?);
        if let Some(place) = &self.place {
            text = format!("{text}, place: {}", place.bind(py).str()?);
        }
        if let Some(distribution) = &self.distribution {
            text = format!("{text}, {distribution}");
        }
        for (axis, least, most) in &self.ranges {
            text = format!("{text}, {least} <= shape[{axis}] <= {most}");
        }
        Ok(text)
    }

    fn passes(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(crate::backend::has_exact_type(object, &self.exact_type)
            && self.stops_gradient(object)? == self.stop_gradient
            && self.same_meta(object)?
            && self.same_place(&self.paddle.facts.place, object)?)
    }

    fn stops_gradient(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self.paddle.native.as_ref().and_then(|native| native.stop_gradient(object)) {
            Some(stops) => Ok(stops),
            None => self.paddle.facts.stop_gradient.get(object)?.is_truthy(),
        }
    }

    fn same_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let (Some(native), Some(dtype)) = (&self.paddle.native, self.dtype_number) {
            return Ok(match self.least {
                None => native.is(object, &self.shape, dtype),
                Some(least) => native.fits(object, &self.shape, dtype, least) && self.relations_hold(object)?,
            });
        }
        let TensorGetters { dtype, shape, .. } = &self.paddle.facts;
        Ok(same(&dtype.get(object)?, &self.dtype)?
            && self.same_shape(&shape.get(object)?)?
            && self.paddle.facts.layout(object)? == self.layout
            && self.same_distribution(object)?)
    }

    fn same_distribution(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.distribution.is_none() || distribution(&self.paddle, object)? == self.distribution)
    }

    fn same_shape(&self, shape: &Bound<'_, PyAny>) -> PyResult<bool> {
        // `paddle.Size` is a subclass of list.
        let Ok(shape) = shape.cast::<PyList>() else { return Ok(false) };
        if shape.len() != self.shape.len() {
            return Ok(false);
        }
        for (size, expected) in shape.iter().zip(&self.shape) {
            let size = size.extract::<i64>()?;
            let fits =
                if *expected == OPEN { self.least.is_some_and(|least| size >= least) } else { size == *expected };
            if !fits {
                return Ok(false);
            }
        }
        let shape: Vec<i64> = shape.extract()?;
        Ok(self.are_related(&shape))
    }

    /// The dimensions whose sizes are not the expected ones; none if anything else differs.
    fn differing(&self, object: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let TensorGetters { dtype, place, .. } = &self.paddle.facts;
        let alike = crate::backend::has_exact_type(object, &self.exact_type)
            && self.stops_gradient(object)? == self.stop_gradient
            && same(&dtype.get(object)?, &self.dtype)?
            && self.same_place(place, object)?;
        if !alike {
            return Ok(Vec::new());
        }
        let shape = self.paddle.facts.shape(object)?;
        if shape.len() != self.shape.len() {
            return Ok(Vec::new());
        }
        let sizes = shape.iter().zip(&self.shape).enumerate();
        let differs =
            sizes.filter(|(_, (size, expected))| **expected != OPEN && size != expected).map(|(axis, _)| axis);
        Ok(differs.chain(self.out_of_range(&shape)).collect())
    }

    fn relations_hold(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if self.ties.is_empty() && self.ranges.is_empty() {
            return Ok(true);
        }
        Ok(self.are_related(&self.paddle.facts.shape(object)?))
    }

    /// True if open sizes that must be equal are equal, and sizes are within their ranges.
    fn are_related(&self, shape: &[i64]) -> bool {
        self.ties.iter().all(|(a, b)| shape.get(*a) == shape.get(*b)) && self.out_of_range(shape).next().is_none()
    }

    fn out_of_range<'a>(&'a self, shape: &'a [i64]) -> impl Iterator<Item = usize> + 'a {
        let is_out = |(axis, least, most): &&(usize, i64, i64)| !(*least..=*most).contains(&shape[*axis]);
        self.ranges.iter().filter(is_out).map(|(axis, ..)| *axis)
    }

    fn same_place(&self, place: &AttributeReader, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        match &self.place {
            None => Ok(true),
            Some(expected) => place.get(object)?.call_method1("_equals", (expected,))?.is_truthy(),
        }
    }
}

/// The pairs of open dimensions that have the same size now.
fn ties(facts: &TensorGetters, tensor: &Bound<'_, PyAny>, meta: &TensorMeta) -> PyResult<Vec<(usize, usize)>> {
    let open: Vec<usize> = (0..meta.shape.len()).filter(|axis| meta.shape[*axis].is_none()).collect();
    if open.len() < 2 {
        return Ok(Vec::new());
    }
    let shape = facts.shape(tensor)?;
    let later = |at: usize| open.iter().skip(at + 1);
    let pair = |at: usize, a: usize| later(at).find(|b| shape[**b] == shape[a]).map(|b| (a, *b));
    Ok(open.iter().enumerate().filter_map(|(at, a)| pair(at, *a)).collect())
}

impl ObjectTest for TensorTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.passes(object).unwrap_or(false)
    }

    fn note(&self, place: &Place<'_>, recorder: &mut Recorder) -> bool {
        let is_exact = self.place.is_none() && self.least.is_none();
        let native = self.paddle.native.as_ref().filter(|_| is_exact);
        native.is_some_and(|native| native.note(place, recorder))
    }

    fn seen(&self, object: &Bound<'_, PyAny>) -> Option<String> {
        let meta = of_tensor(&self.paddle, object).ok()?;
        let place = self.place.as_ref().and_then(|_| self.paddle.facts.place.get(object).ok());
        let place = place.map_or_else(String::new, |place| format!(", place: {place}"));
        let distributed = distribution(&self.paddle, object).ok()?;
        let distributed = distributed.map_or_else(String::new, |distribution| format!(", {distribution}"));
        Some(format!("{meta}, type: {}{place}{distributed}", cpython::type_name(&object.get_type())))
    }

    fn differing_sizes(&self, object: &Bound<'_, PyAny>) -> Vec<usize> {
        self.differing(object).unwrap_or_default()
    }

    fn expected(&self) -> Option<String> {
        Python::attach(|py| self.text(py)).ok()
    }

    fn describe(&self, subject: &str) -> String {
        let text = self.expected().unwrap_or_default();
        format!("is_tensor_like({subject}, {text})")
    }

    fn key(&self) -> TestKey {
        let Some(dtype) = self.dtype_number.filter(|_| self.place.is_none() && self.ranges.is_empty()) else {
            return TestKey::Text(self.describe("x"));
        };
        let least = self.least.unwrap_or_default();
        let kind = [self.exact_type.as_ptr() as i64, dtype.into(), self.stop_gradient.into(), least];
        TestKey::Parts("tensor", kind.into_iter().chain(self.shape.iter().copied()).collect())
    }
}

fn same(left: &Bound<'_, PyAny>, right: &Py<PyAny>) -> PyResult<bool> {
    Ok(left.is(right) || left.eq(right)?)
}
