//! Static mode for the duration of one operation. The switches of Paddle's own context managers are set directly, and
//! always put back. Only this thread is switched: the module-wide default of new threads stays eager.

use std::cell::RefCell;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::cpython;

use crate::backend::paddle::call_stacks::NoCallStacks;
use crate::backend::paddle::static_warnings::{self, StatementScope};

/// The functions and objects that switch static mode, looked up once.
pub(crate) struct StaticMode {
    thread_state: Py<PyAny>,
    switch_tracer: Py<PyAny>,
    switch_cast_hook: Py<PyAny>,
    cast: Py<PyAny>,
    switch_main: Py<PyAny>,
    switch_startup: Py<PyAny>,
    switch_names: Py<PyAny>,
    new_names: Py<PyAny>,
}

thread_local! {
    static THREAD_STATE: RefCell<Option<(Py<PyAny>, Py<PyDict>)>> = const { RefCell::new(None) };
}

/// The programs and names that operations are appended to while static mode is on.
pub(crate) struct BuildTarget {
    /// The program being built.
    pub(crate) main: Py<PyAny>,
    /// Its outermost block.
    block: Py<PyAny>,
    startup: Py<PyAny>,
    names: Py<PyAny>,
}

impl BuildTarget {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> BuildTarget {
        BuildTarget {
            main: self.main.clone_ref(py),
            block: self.block.clone_ref(py),
            startup: self.startup.clone_ref(py),
            names: self.names.clone_ref(py),
        }
    }

    /// Returns the program's outermost block.
    pub(crate) fn block<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.block.bind(py)
    }

    /// Returns the number of operations in the outermost block of the program. Operations in nested blocks do not
    /// count.
    pub(crate) fn operations(&self, py: Python<'_>) -> PyResult<usize> {
        self.block(py).len()
    }
}

impl StaticMode {
    /// Looks up the functions that switch static mode.
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let pir = cpython::import(py, "paddle.pir.core")?;
        let names = cpython::import(py, "paddle.base.unique_name")?;
        static_warnings::install(py)?;
        Ok(StaticMode {
            thread_state: cpython::import(py, "paddle.base.framework")?.getattr("global_var")?.unbind(),
            switch_tracer: cpython::import(py, "paddle.base.core")?.getattr("_switch_tracer")?.unbind(),
            switch_cast_hook: pir.getattr("set_static_op_arg_pre_cast_hook")?.unbind(),
            cast: pir.getattr("_convert_into_value")?.unbind(),
            switch_main: pir.getattr("switch_main_program")?.unbind(),
            switch_startup: pir.getattr("switch_startup_program")?.unbind(),
            switch_names: names.getattr("switch")?.unbind(),
            new_names: names.getattr("UniqueNameGenerator")?.unbind(),
        })
    }

    /// Makes an empty program with its own name generator, so that tracing does not change the names of the user's
    /// layers.
    pub(crate) fn new_target(&self, py: Python<'_>, program: &Py<PyAny>) -> PyResult<BuildTarget> {
        let main = program.call0(py)?;
        let block = main.call_method0(py, intern!(py, "global_block"))?;
        Ok(BuildTarget { main, block, startup: program.call0(py)?, names: self.new_names.call0(py)? })
    }

    /// Returns the tracer of eager mode in this thread; `None` in static mode.
    pub(crate) fn tracer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (state, name) = (self.state(py)?, intern!(py, "_dygraph_tracer_"));
        cpython::dict_get(&state, name).map_or_else(|| self.thread_state.bind(py).getattr(name), Ok)
    }

    /// Returns the attributes of Paddle's thread-local state in this thread. They are looked up once for each thread.
    pub(crate) fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        THREAD_STATE.with(|known| {
            if let Some((of, state)) = &*known.borrow() {
                if of.is(&self.thread_state) {
                    return Ok(state.bind(py).clone());
                }
            }
            let state = self.thread_state.bind(py).getattr(intern!(py, "__dict__"))?.cast_into::<PyDict>()?;
            known.replace(Some((self.thread_state.clone_ref(py), state.clone().unbind())));
            Ok(state)
        })
    }

    /// Runs `work` in static mode, with operations appended to `target`.
    pub(crate) fn within<T>(
        &self,
        py: Python<'_>,
        target: &BuildTarget,
        work: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let mut entered = StaticModeScope::new(self, py)?;
        entered.switch_tracer()?;
        entered.switch_target(target)?;
        let building = (StatementScope::begin(), NoCallStacks::begin(py)?);
        let result = work();
        drop(building);
        entered.leave()?;
        result
    }

    /// Runs `work` in static mode, with `methods` of `layer` stripped of their decorator. The decorator would switch
    /// to static mode, and would also switch the mode that new threads begin with: a thread that begins meanwhile
    /// would have no tracer, and its first operation would read a null pointer.
    pub(crate) fn in_this_thread_only<T>(
        &self,
        layer: &Bound<'_, PyAny>,
        methods: &[&str],
        work: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let py = layer.py();
        for name in methods {
            let method = layer.get_type().getattr(*name)?.getattr(intern!(py, "__wrapped__"))?;
            layer.setattr(*name, method.call_method1(intern!(py, "__get__"), (layer,))?)?;
        }
        let mut entered = StaticModeScope::new(self, py)?;
        entered.switch_tracer()?;
        let building = (StatementScope::begin(), NoCallStacks::begin(py)?);
        let result = work();
        drop(building);
        entered.leave()?;
        methods.iter().try_for_each(|name| layer.delattr(*name))?;
        result
    }
}

/// Keeps this thread in static mode while it lives. The fields hold the former values, in the order of switching.
struct StaticModeScope<'a, 'py> {
    switches: &'a StaticMode,
    state: Bound<'py, PyDict>,
    tracer: Bound<'py, PyAny>,
    in_to_static: Option<Bound<'py, PyAny>>,
    cast_hook: Option<Bound<'py, PyAny>>,
    main: Option<Bound<'py, PyAny>>,
    startup: Option<Bound<'py, PyAny>>,
    names: Option<Bound<'py, PyAny>>,
    left: bool,
}

impl<'a, 'py> StaticModeScope<'a, 'py> {
    fn new(switches: &'a StaticMode, py: Python<'py>) -> PyResult<Self> {
        let tracer = switches.tracer(py)?;
        if tracer.is_none() {
            return Err(PyNotImplementedError::new_err(
                "Paddle is in static mode; graphs are taken from eager code only",
            ));
        }
        let state = switches.state(py)?;
        Ok(StaticModeScope {
            switches,
            state,
            tracer,
            in_to_static: None,
            cast_hook: None,
            main: None,
            startup: None,
            names: None,
            left: false,
        })
    }

    fn switch_tracer(&mut self) -> PyResult<()> {
        let py = self.tracer.py();
        // Written into the dict, not by the object's own `__setattr__`, which would also make static mode the default
        // of new threads.
        self.state.set_item(intern!(py, "_dygraph_tracer_"), py.None())?;
        self.switches.switch_tracer.bind(py).call1((py.None(),)).map(drop)
    }

    fn switch_target(&mut self, target: &BuildTarget) -> PyResult<()> {
        let (switches, py) = (self.switches, self.tracer.py());
        self.in_to_static = self.state.get_item(intern!(py, "_in_to_static_mode_"))?;
        self.state.set_item(intern!(py, "_in_to_static_mode_"), true)?;
        self.cast_hook = Some(switches.switch_cast_hook.bind(py).call1((&switches.cast,))?);
        self.main = Some(switches.switch_main.bind(py).call1((&target.main,))?);
        self.startup = Some(switches.switch_startup.bind(py).call1((&target.startup,))?);
        self.names = Some(switches.switch_names.bind(py).call1((&target.names,))?);
        Ok(())
    }

    /// Puts everything back, even if one step fails. Reports the first failure.
    fn leave(&mut self) -> PyResult<()> {
        if std::mem::replace(&mut self.left, true) {
            return Ok(());
        }
        let (switches, py) = (self.switches, self.tracer.py());
        let spread = |switch: &Py<PyAny>, before: Option<Bound<'py, PyAny>>| match before {
            Some(before) => switch.bind(py).call1(before.cast_into::<PyTuple>()?).map(drop),
            None => Ok(()),
        };
        let single = |switch: &Py<PyAny>, before: Option<Bound<'py, PyAny>>| match before {
            Some(before) => switch.bind(py).call1((before,)).map(drop),
            None => Ok(()),
        };
        let names = spread(&switches.switch_names, self.names.take());
        let startup = single(&switches.switch_startup, self.startup.take());
        let main = spread(&switches.switch_main, self.main.take());
        let hook = single(&switches.switch_cast_hook, self.cast_hook.take());
        let in_to_static = match self.in_to_static.take() {
            Some(before) => self.state.set_item(intern!(py, "_in_to_static_mode_"), before),
            None => Ok(()),
        };
        let tracer = switches.switch_tracer.bind(py).call1((&self.tracer,)).map(drop);
        let state = self.state.set_item(intern!(py, "_dygraph_tracer_"), &self.tracer);
        names.and(startup).and(main).and(hook).and(in_to_static).and(tracer).and(state)
    }
}

impl Drop for StaticModeScope<'_, '_> {
    fn drop(&mut self) {
        if let Err(error) = self.leave() {
            error.write_unraisable(self.tracer.py(), None);
        }
    }
}
