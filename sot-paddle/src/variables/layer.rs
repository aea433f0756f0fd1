//! `nn.Layer` objects. Parameters, buffers and sublayers are entries of three dicts. A call runs hooks and `forward`.
//! A call of a leaf layer of Paddle is one statement, with guards on everything that its forward may read.

use std::cell::Cell;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use sot_core::backend::OwnCode;
use sot_core::builtin;
use sot_core::bytecode::Op;
use sot_core::cpython::{self, GetattrHook};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::graph::export_folder;
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, VarId, Variable};

use crate::backend::calls::layer::LAYER;
use crate::backend::calls::marks;
use crate::backend::PaddleBackend;

sot_core::variable_kind! { "layer", rank: 250, when: is_layer, wrap: LayerVariable::wrap }

fn is_layer(object: &Bound<'_, PyAny>) -> bool {
    !object.is_instance_of::<PyType>()
        && PaddleBackend::installed(object.py()).is_ok_and(|backend| backend.is_layer(object))
}

/// The dicts in which `nn.Layer.__getattr__` looks, in its order.
const STORES: [&str; 3] = ["_parameters", "_sub_layers", "_buffers"];
/// Dicts of hooks.
const HOOKS: [&str; 2] = ["_forward_pre_hooks", "_forward_post_hooks"];
/// Dicts of hooks that are called differently.
const SPECIAL_HOOKS: [&str; 3] = [
    "_forward_pre_hooks_with_kwargs_flag",
    "_forward_post_hooks_with_kwargs_flag",
    "_forward_post_hooks_always_called",
];

/// The variable of a layer.
pub struct LayerVariable {
    object: Py<PyAny>,
    /// True if the layer's class is one of Paddle's own.
    is_paddles: bool,
    /// True if the layer's class reads attributes as `nn.Layer` does; `None` until this is first asked and guarded.
    has_layers_reads: Cell<Option<bool>>,
    /// The tracker of a class of Paddle's own, once it has been asked for.
    class_tracker: Cell<Option<TrackerId>>,
    /// The layer's class, if it is made in the trace.
    made_class: Option<VarId>,
    /// The layers that new code makes the container from, if the layer is a container made in the trace.
    made_of: Option<Parts>,
}

/// The layers of a container. `as_list` is true if the container's class takes them as one list.
struct Parts {
    layers: Vec<VarId>,
    as_list: bool,
}

builtin! { SEQUENTIAL = "paddle.nn:Sequential" => |cx, args| make_container(cx, "Sequential", args) }

builtin! { LAYER_LIST = "paddle.nn:LayerList" => |cx, args| make_container(cx, "LayerList", args) }

/// Makes a container of existing layers, as slices of containers do.
fn make_container(cx: &mut OpcodeExecutor<'_>, name: &str, args: &CallArgs) -> Flow<VarId> {
    let class = cpython::import(cx.py, "paddle.nn")?.getattr(name)?;
    let as_list = name == "LayerList";
    let layers = match &args.positional[..] {
        &[list] if as_list && matches!(cx.see(list)?.form(), Form::List | Form::Tuple) => cx.unpack_all(list)?,
        layers if !as_list => layers.to_vec(),
        _ => Vec::new(),
    };
    let mut objects = Vec::new();
    for &layer in &layers {
        if let Some(known) = cx.see_as::<LayerVariable>(layer)? {
            if !known.is_changed(&cx.trace, layer) {
                objects.push(known.object.bind(cx.py).clone());
            }
        }
    }
    if objects.len() != layers.len() || layers.is_empty() || !args.keywords.is_empty() {
        let text = format!("{name} is made of what is not known to be layers; make it outside the translated function");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    let made = if as_list { class.call1((objects,)) } else { class.call1(PyTuple::new(cx.py, objects)?) };
    let made = made.map_err(|error| cx.raise(error))?;
    let parts = Parts { layers, as_list };
    Ok(cx.trace.produce_real(Rc::new(LayerVariable::new(&made, None, Some(parts))), &made))
}

impl LayerVariable {
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        let is_made = |class: &VarId| cx.trace.trackers.is_made(cx.trace.vars.tracker(*class));
        let class = cx.trace.identities.of(&object.get_type()).filter(is_made);
        Ok(Rc::new(LayerVariable::new(object, class, None)))
    }

    fn new(object: &Bound<'_, PyAny>, made_class: Option<VarId>, made_of: Option<Parts>) -> Self {
        let is_own = |backend: &PaddleBackend| backend.is_own_layer_class(&object.get_type());
        LayerVariable {
            object: object.clone().unbind(),
            is_paddles: PaddleBackend::installed(object.py()).and_then(is_own).unwrap_or(false),
            has_layers_reads: Cell::new(None),
            class_tracker: Cell::new(None),
            made_class,
            made_of,
        }
    }

    /// True if the class has `nn.Layer`'s own method under a name, and that method is Paddle's. The method is guarded.
    fn has_layers_own(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<bool> {
        let Some((held, tracker)) = object_model::lookup(cx, this, &name.into())? else { return Ok(false) };
        object_model::guard_identity(cx, &held, tracker);
        let backend = PaddleBackend::installed(cx.py)?;
        let base = cpython::type_lookup(&backend.layer_type(cx.py), &cpython::interned(cx.py, name));
        Ok(base.is_some_and(|base| base.is(&held)) && !backend.is_replaced(&held))
    }

    /// Returns one of the layer's own dicts, as it is outside the trace.
    fn store<'py>(
        &self,
        cx: &mut OpcodeExecutor<'py>,
        this: VarId,
        store: &str,
    ) -> Flow<Option<(Bound<'py, PyDict>, TrackerId)>> {
        let layer = self.object.bind(cx.py).clone();
        let Some(dict) = cpython::instance_dict(&layer) else { return Ok(None) };
        let of = cx.trace.vars.tracker(this);
        match cpython::dict_get(&dict, &cpython::interned(cx.py, store)) {
            Some(found) => {
                let tracker = cx.trace.trackers.add(Tracker::Attribute { of, name: store.into() });
                Ok(found.cast_into::<PyDict>().ok().map(|found| (found, tracker)))
            }
            None => Ok(None),
        }
    }

    /// True if the trace wrote to the layer or to one of its dicts, however it reached them. The real object then does
    /// not show the layer's contents.
    fn is_changed(&self, trace: &Trace<'_>, this: VarId) -> bool {
        trace.effects.is_written(this) || self.is_any_changed(trace, &STORES)
    }

    /// True if the trace wrote to one of these dicts of the layer.
    fn is_any_changed(&self, trace: &Trace<'_>, stores: &[&str]) -> bool {
        let changes = |effect: &Effect, of: Option<VarId>| match effect {
            Effect::Contents { container } => of.is_none_or(|of| of == *container),
            _ => false,
        };
        if !trace.effects.log().iter().any(|effect| changes(effect, None)) {
            return false;
        }
        let Some(own) = cpython::instance_dict(self.object.bind(trace.py)) else { return false };
        stores.iter().any(|store| {
            let held = cpython::dict_get(&own, &cpython::interned(trace.py, store));
            let met = held.and_then(|held| trace.identities.of(&held));
            met.is_some_and(|met| trace.effects.log().iter().any(|effect| changes(effect, Some(met))))
        })
    }

    /// True if attributes are read as `nn.Layer` reads them. That is guarded.
    fn has_layers_reads(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        if let Some(known) = self.has_layers_reads.get() {
            return Ok(known);
        }
        let class = self.object.bind(cx.py).get_type();
        let has_layers_reads = matches!(cpython::getattr_hook(&class), GetattrHook::GetAttrHook)
            && self.has_layers_own(cx, this, "__getattr__")?;
        if has_layers_reads {
            object_model::assume_own_reads(cx, this)?;
        }
        self.has_layers_reads.set(Some(has_layers_reads));
        Ok(has_layers_reads)
    }

    /// Reads an attribute of a layer. With `in_stores`, also looks in the dicts in which `nn.Layer` looks.
    fn read(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, in_stores: bool) -> Flow<Option<VarId>> {
        if !in_stores {
            return object_model::get_attr(cx, this, name);
        }
        match object_model::generic_get_attr(cx, this, name)? {
            Some(found) => Ok(Some(found)),
            None => self.from_stores(cx, this, name),
        }
    }

    /// Looks up an attribute as `nn.Layer.__getattr__` does, in the dicts.
    fn from_stores(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let key = cpython::interned(cx.py, name);
        for store in STORES {
            let Some((dict, of)) = self.store(cx, this, store)? else { continue };
            if let Some(value) = cpython::dict_get(&dict, &key) {
                let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Str(Rc::clone(name)) });
                return Ok(Some(cx.trace.wrap(&value, tracker)));
            }
            if cx.trace.trackers.is_sourced(of) {
                cx.trace.guards.add(of, Test::LacksKey(Key::Str(Rc::clone(name))));
            }
        }
        Ok(None)
    }

    /// Makes a call of the layer one statement, with guards on what its forward reads.
    fn call_whole(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let layer = self.object.bind(cx.py).clone();
        let of = cx.trace.vars.tracker(this);
        self.guard_no_hooks(cx, this)?;
        let forward = object_model::lookup(cx, this, &Rc::from("forward"))?;
        if let Some((forward, tracker)) = forward.filter(|(_, tracker)| cx.trace.trackers.is_sourced(*tracker)) {
            cx.trace.guards.add(tracker, Test::Is(Identity::of(&forward)));
        }
        let reads = PaddleBackend::installed(cx.py)?.layer_reads(&layer)?;
        let layers_reads = self.has_layers_reads(cx, this)?;
        for (name, _) in &reads.found {
            let name = Rc::from(name.to_str()?);
            let in_stores = layers_reads && !self.is_changed(&cx.trace, this);
            if let Some(value) = self.read(cx, this, &name, in_stores)? {
                if cx.trace.effects.attribute(value, &Rc::from("stop_gradient")).is_some() {
                    // The statement would read the parameter as it was before the write.
                    return cx.without_frame(|cx| self.call_followed(cx, this, args));
                }
                guard_read(cx, value)?;
            }
        }
        if cx.trace.trackers.is_sourced(of) && !reads.found.iter().any(|(name, _)| name == "forward") {
            cx.trace.guards.add(of, Test::LacksAttribute("forward".into()));
        }
        if cx.trace.trackers.is_sourced(of) {
            cx.trace.guards.add(of, Test::Is(Identity::of(&layer)));
        }
        let name = cpython::type_name(&layer.get_type());
        let follow = |cx: &mut OpcodeExecutor<'_>| self.call_followed(cx, this, args);
        let result = cx.call_graph_or_follow((LAYER, &layer), &name, args, follow)?;
        if !reads.is_unchanged() {
            // Some layers set an attribute at their first call. Layers that the trace calls later may do so, too.
            cx.note_abandoned(&format!("the first call of {name} sets attributes of the layer"));
            cx.trace.graph.is_stale = true;
        }
        Ok(result)
    }

    fn guard_no_hooks(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        for store in HOOKS {
            if let Some((dict, tracker)) = self.store(cx, this, store)? {
                if dict.is_empty() && cx.trace.trackers.is_sourced(tracker) {
                    cx.trace.guards.add(tracker, Test::Length(0));
                }
            }
        }
        Ok(())
    }

    fn hooks(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, store: &str) -> Flow<Vec<VarId>> {
        let Some((dict, _)) = self.store(cx, this, store)? else { return Ok(Vec::new()) };
        if dict.is_empty() && !self.is_any_changed(&cx.trace, &[store]) {
            return Ok(Vec::new());
        }
        let registry = cx.get_attr(this, &Rc::from(store))?;
        let values = cx.call_method(registry, "values", &[])?;
        cx.unpack_all(values)
    }

    fn refuse_special_hooks(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        for store in SPECIAL_HOOKS {
            let has_some = self.store(cx, this, store)?.is_some_and(|(dict, _)| !dict.is_empty());
            if has_some || self.is_any_changed(&cx.trace, &[store]) {
                return Err(Unwind::break_graph(
                    ReasonId::UnsupportedCall,
                    "a layer with hooks that take keyword arguments",
                ));
            }
        }
        Ok(())
    }

    /// True if the next call may have another layer in this one's place: the layer is made in the function, or a local
    /// variable holds a layer with settings only, or another layer was found here before.
    fn is_short_lived(&self, trace: &Trace<'_>, this: VarId) -> Flow<bool> {
        let tracker = trace.vars.tracker(this);
        if trace.is_short_lived(tracker) {
            return Ok(true);
        }
        let is_local = matches!(trace.trackers.get(tracker), Tracker::Local { .. });
        let class = self.object.bind(trace.py).get_type();
        Ok(is_made(trace, this) || is_local && PaddleBackend::installed(trace.py)?.is_bare_layer(&class)?)
    }

    /// Runs pre-hooks, `forward` and post-hooks, as `nn.Layer.__call__` does.
    fn call_followed(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        self.guard_no_hooks(cx, this)?;
        let before = self.hooks(cx, this, "_forward_pre_hooks")?;
        let after = self.hooks(cx, this, "_forward_post_hooks")?;
        if !before.is_empty() || !after.is_empty() {
            self.refuse_special_hooks(cx, this)?;
        }
        let mut args = args.clone();
        for hook in before {
            let inputs = cx.trace.tuple(args.positional.clone());
            let result = cx.call(hook, &CallArgs::positional(vec![this, inputs]))?;
            if cx.known(result)?.is_some_and(|value| value.is_none()) {
                continue;
            }
            args.positional = match cx.see(result)?.form() {
                Form::Tuple => cx.unpack_all(result)?,
                _ => vec![result],
            };
        }
        let forward = cx.get_attr(this, &Rc::from("forward"))?;
        let mut output =
            if after.is_empty() { cx.call_instead_of(this, forward, &args) } else { cx.call(forward, &args) }?;
        for hook in after {
            let inputs = cx.trace.tuple(args.positional.clone());
            let result = cx.call(hook, &CallArgs::positional(vec![this, inputs, output]))?;
            if !cx.known(result)?.is_some_and(|value| value.is_none()) {
                output = result;
            }
        }
        Ok(output)
    }
}

/// Guards a value that the statement reads: values by value, everything else by identity.
fn guard_read(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<()> {
    let payload = cx.see(value)?;
    let tracker = cx.trace.vars.tracker(value);
    if payload.constant().is_some() || !cx.trace.trackers.is_sourced(tracker) {
        return Ok(());
    }
    match payload.form() {
        Form::List | Form::Tuple => {
            payload.open(cx, value)?;
            for item in cx.trace.vars.get(value).children() {
                cx.see(item)?;
            }
        }
        _ => {
            if let Some(object) = payload.object() {
                let identity = Identity::of(object.bind(cx.py));
                cx.trace.guards.add(tracker, Test::Is(identity));
            }
        }
    }
    Ok(())
}

fn is_made(trace: &Trace<'_>, layer: VarId) -> bool {
    matches!(trace.trackers.get(trace.vars.tracker(layer)), Tracker::RealObject(_))
}

impl Variable for LayerVariable {
    fn kind(&self) -> &'static str {
        "layer"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    /// Returns the tracker of the layer's class. A class of Paddle's own is a constant, because it lasts as long as the
    /// process; its guards are shared by all of its layers.
    fn type_tracker(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> TrackerId {
        if let Some(known) = self.class_tracker.get() {
            return known;
        }
        let class = self.python_type(&cx.trace);
        if !self.is_paddles {
            return object_model::type_tracker(cx, this, class);
        }
        let tracker = cx.trace.trackers.constant(class.unbind());
        self.class_tracker.set(Some(tracker));
        tracker
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("LayerVariable({})", cpython::type_name(&self.object.bind(trace.py).get_type()))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if &**name == "__dict__" && is_made(&cx.trace, this) {
            let text = "the attributes of a layer made in the function, as a dict";
            return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
        }
        let in_stores = !self.is_changed(&cx.trace, this) && self.has_layers_reads(cx, this)?;
        self.read(cx, this, name, in_stores)
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        if is_made(&cx.trace, this) {
            let known = value.map(|value| cx.known(value)).transpose()?.flatten().is_some();
            // A setting is stored in the layer's `__dict__`; the layer has nothing in its other dicts.
            if self.made_of.is_none()
                && known
                && &**name != "training"
                && self.has_layers_own(cx, this, "__setattr__")?
            {
                return object_model::generic_set_attr(cx, this, name, value);
            }
            let text = format!("{name} of a layer made in the function");
            return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
        }
        object_model::set_attr(cx, this, name, value)
    }

    fn children(&self) -> Vec<VarId> {
        self.made_of.iter().flat_map(|parts| parts.layers.iter().copied()).chain(self.made_class).collect()
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        if self.made_of.is_some() && self.is_changed(&cx.trace, this) {
            return Err(Unwind::fallback(ReasonId::CannotRestore, "a container of layers that was written to"));
        }
        Ok(())
    }

    /// Rebuilds a layer made in the trace: a copy if it has settings only, or a new container of existing layers. The
    /// class of a copy is the class that new code makes, if the trace made it: as the memory of `deepcopy` says.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let py = cg.py();
        if let Some(parts) = &self.made_of {
            let class = self.object.bind(py).get_type().into_any().unbind();
            cg.begin_call(|cg| cg.load_const(class))?;
            for &layer in &parts.layers {
                cg.load(layer)?;
            }
            let count = parts.layers.len() as u32;
            if parts.as_list {
                cg.op(Op::BUILD_LIST, count)?;
            }
            return cg.end_call(if parts.as_list { 1 } else { count });
        }
        let (copy, object) = (cpython::import(py, "copy")?.getattr("deepcopy")?.unbind(), self.object.clone_ref(py));
        cg.begin_call(|cg| cg.load_const(copy))?;
        cg.load_const(object)?;
        let Some(class) = self.made_class else { return cg.end_call(1) };
        let address = (self.object.bind(py).get_type().as_ptr() as usize).into_pyobject(py).map_err(PyErr::from)?;
        cg.load_const(address.into_any().unbind())?;
        cg.load(class)?;
        cg.op(Op::BUILD_MAP, 1)?;
        cg.end_call(2)
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        object_model::truth(cx, this)
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        if !self.has_layers_own(cx, this, "__call__")? {
            return object_model::call(cx, this, args);
        }
        if !self.has_layers_reads(cx, this)? {
            return cx.without_frame(|cx| self.call_followed(cx, this, args));
        }
        let layer = self.object.bind(cx.py).clone();
        if let Some(list) = marks::listed(&layer)? {
            let name = cpython::type_name(&layer.get_type());
            return Err(Unwind::break_graph(ReasonId::BreakListed, format!("the layer {name} is {list}")));
        }
        let is_hooked = self.is_any_changed(&cx.trace, &HOOKS);
        let is_followed = is_hooked || self.is_short_lived(&cx.trace, this)? || export_folder().is_some();
        if !is_followed && !self.is_changed(&cx.trace, this) && PaddleBackend::installed(cx.py)?.is_leaf_layer(&layer) {
            return self.call_whole(cx, this, args);
        }
        cx.without_frame(|cx| self.call_followed(cx, this, args))
    }
}
