//! `paddle.grad`: gradients with respect to given tensors. If a program stands in the way, they are computed from its
//! statements.

use std::sync::{Arc, Weak};

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyModule, PyTuple};
use sot_core::cpython;

use super::pass::{Hooks, MetGradient, Pass, PassKind, RunningPass};
use super::results::{self, ResultOf};
use super::watch::{flag, refuse_program, run, ERROR_BY_RESULT};
use super::{copies, late_hooks, made, module, past_run, rehearsal, unreached, Hook, PastRun};

/// Replaces the function behind `paddle.grad`. `args`: outputs, inputs, weights, whether the graph is kept, whether
/// the gradients have gradients (`create_graph`), whether only the inputs get gradients, whether some inputs may be
/// unreached, and the tensors that no gradient flows through.
pub(super) fn run_partial_grad<'py>(
    function: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
) -> PyResult<Bound<'py, PyAny>> {
    copies::around(function.py(), || gradients(function, args))
}

fn gradients<'py>(function: &Bound<'py, PyAny>, args: &[Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let creates = flag(args, 4)?;
    let (mut inputs, mut wanted, mut paddle_knows) = (Vec::new(), Vec::new(), true);
    for (place, input) in args[1].try_iter()?.enumerate() {
        let input = input?;
        match results::origin(&input) {
            Some(ResultOf::Program(run, at)) => {
                paddle_knows = false;
                hold_back(function.py(), &run)?;
                wanted.push(WantedResult { run, at, place, only: None });
            }
            // With `create_graph`, the pass stops at this result.
            Some(ResultOf::Only(run)) if creates => {
                wanted.push(WantedResult { run, at: 0, place, only: Some(input) });
            }
            Some(ResultOf::MadeOfInput) => return refuse_program(ERROR_BY_RESULT),
            Some(ResultOf::Made(run, at)) if run.upgrade().is_none_or(|run| run.carries_other_gradients(at)) => {
                paddle_knows = false;
                hold_back(function.py(), &run)?;
                wanted.push(WantedResult { run, at: made::key(at), place, only: None });
            }
            origin => {
                if let Some(ResultOf::Trial(passes, _)) = origin {
                    passes.upgrade().into_iter().for_each(|passes| passes.refuse_program());
                }
                inputs.push((place, input));
            }
        }
    }
    let stopped = StoppedTensors::of(args.get(7))?;
    if !wanted.is_empty() || !stopped.results.is_empty() {
        paddle_knows &= stopped.results.is_empty();
        match by_results(function, args, inputs, wanted, stopped, paddle_knows)? {
            Some(gradients) => return Ok(gradients),
            None if paddle_knows => {}
            None => return refuse_program(ERROR_BY_RESULT),
        }
    }
    if !creates {
        let kind = if flag(args, 3)? {
            PassKind::Keeps
        } else if rehearsal::is_pass() {
            PassKind::Frees
        } else {
            PassKind::Leaves
        };
        let given = late_hooks::add_hooked_roots(function.py(), args, 2)?;
        let pass = Pass { ends_at: only_asked_for(&args[1])?, ..Pass::new(kind) };
        let (gradients, passed) = run(pass, function, &given)?;
        return unreached::without(&passed, &args[1], gradients, flag(args, 6)?);
    }
    let plain = || run(Pass::new(PassKind::Keeps), function, args).map(|(gradients, _)| gradients);
    if !past_run::are_alive() {
        return plain();
    }
    let mut first = args.to_vec();
    first[3] = py_true(function.py());
    let (gradients, passed) = run(Pass::without_hooks(PassKind::Keeps), function, &first)?;
    let gradients = unreached::without(&passed, &args[1], gradients, flag(args, 6)?)?;
    let has_muted = passed.has_hooks(function.py());
    if passed.kept.is_empty() {
        return if has_muted { plain() } else { Ok(gradients) };
    }
    let given = PyTuple::new(function.py(), &args[..3])?;
    again(function, args, &passed.kept, |module, up_to_programs| {
        module.call_method1("differentiable", (up_to_programs, given, gradients, has_muted))
    })
}

/// Returns the number of the run whose only result is the only tensor that a gradient is asked for.
fn only_asked_for(inputs: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if inputs.len()? != 1 {
        return Ok(None);
    }
    Ok(match results::origin(&inputs.get_item(0)?) {
        Some(ResultOf::Only(run)) => run.upgrade().map(|run| run.number),
        _ => None,
    })
}

/// Makes views of the run's results hold back the gradients that reach them, in passes that stop at programs; the
/// statements' results use these gradients instead.
fn hold_back(py: Python<'_>, run: &Weak<PastRun>) -> PyResult<()> {
    match run.upgrade() {
        Some(run) if !run.made().is_empty() => match run.late_hooks(py)? {
            Some(hooks) => hooks.call_method0("defer_derived").map(drop),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// A result of a program with respect to which a gradient is asked for, and its index among all inputs.
struct WantedResult<'py> {
    run: Weak<PastRun>,
    at: usize,
    place: usize,
    /// The result itself, if the program has no other.
    only: Option<Bound<'py, PyAny>>,
}

impl<'py> WantedResult<'py> {
    /// Tensors such that a pass for gradients with respect to them reaches the program. `None` if no pass may reach it.
    fn sources(&self, py: Python<'py>, run: &PastRun) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        // The pass ends at an only result. What comes before it need have no second derivative.
        if let Some(only) = &self.only {
            return Ok(Some(vec![only.clone()]));
        }
        let mut sources = Vec::new();
        Ok(run.sources(py, &mut sources)?.then_some(sources))
    }
}

/// The tensors that no gradient flows through.
struct StoppedTensors<'py> {
    /// Results of programs with several results.
    results: Vec<(Weak<PastRun>, usize)>,
    others: Vec<Bound<'py, PyAny>>,
}

impl<'py> StoppedTensors<'py> {
    fn of(tensors: Option<&Bound<'py, PyAny>>) -> PyResult<Self> {
        let mut stopped = StoppedTensors { results: Vec::new(), others: Vec::new() };
        let Some(tensors) = tensors.filter(|tensors| !tensors.is_none()) else { return Ok(stopped) };
        for tensor in tensors.try_iter()? {
            let tensor = tensor?;
            match results::origin(&tensor) {
                Some(ResultOf::Program(run, at)) => {
                    hold_back(tensor.py(), &run)?;
                    stopped.results.push((run, at));
                }
                Some(ResultOf::Made(run, at)) => {
                    hold_back(tensor.py(), &run)?;
                    stopped.results.push((run, made::key(at)));
                }
                Some(ResultOf::MadeOfInput) => return refuse_program(ERROR_BY_RESULT),
                origin => {
                    if let Some(ResultOf::Trial(passes, _)) = origin {
                        passes.upgrade().into_iter().for_each(|passes| passes.refuse_program());
                    }
                    stopped.others.push(tensor);
                }
            }
        }
        Ok(stopped)
    }
}

/// Computes gradients with respect to results of programs with several results, or gradients that do not flow through
/// such results, from statements that are called one by one. `inputs` are the other tensors. `None` if that is
/// impossible.
fn by_results<'py>(
    function: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    inputs: Vec<(usize, Bound<'py, PyAny>)>,
    wanted: Vec<WantedResult<'py>>,
    stopped: StoppedTensors<'py>,
    paddle_knows: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = function.py();
    let count = args[1].len()?;
    let (mut places, mut inputs): (Vec<_>, Vec<_>) = inputs.into_iter().unzip();
    let (by_result, mut sources) = (PyDict::new(py), Vec::new());
    for result in wanted {
        let Some(run) = result.run.upgrade() else { return Ok(None) };
        by_result.set_item((run.number, result.at), result.place)?;
        for called in run.called(py, result.at)? {
            places.push(result.place);
            inputs.push(called);
        }
        let Some(found) = result.sources(py, &run)? else { return Ok(None) };
        sources.extend(found.into_iter().map(|source| (run.number, source, result.only.is_some())));
    }
    let no_gradients = PyList::empty(py);
    for (run, at) in stopped.results {
        let Some(run) = run.upgrade() else { return Ok(None) };
        no_gradients.append((run.number, at))?;
    }
    let mut first = args.to_vec();
    if let Some(others) = first.get_mut(7) {
        *others = PyList::new(py, stopped.others)?.into_any();
    }
    first[1] = with_sources(py, &inputs, &sources)?;
    (first[3], first[4], first[6]) = (py_true(py), PyBool::new(py, false).to_owned().into_any(), py_true(py));
    let (gradients, passed) = run(Pass::without_hooks(PassKind::Keeps), function, &first)?;
    if paddle_knows && passed.kept.is_empty() {
        return Ok(None);
    }
    first[1] = PyList::new(py, inputs)?.into_any();
    let given = PyTuple::new(py, &first[..3])?;
    let asked = (count, flag(args, 4)?, flag(args, 6)?, passed.has_hooks(py));
    // The arguments for the second call: `first` has the same flags as `args`, except for second gradients.
    first[4] = args[4].clone();
    let made = again(function, &first, &passed.kept, |module, up_to_programs| {
        let results = (by_result, no_gradients, sources);
        module.call_method1("by_results", (up_to_programs, given, gradients, places, results, asked))
    })?;
    Ok((!made.is_none()).then_some(made))
}

/// The inputs of a pass, and after them the sources that are no inputs, each once.
fn with_sources<'py>(
    py: Python<'py>,
    inputs: &[Bound<'py, PyAny>],
    sources: &[(u64, Bound<'py, PyAny>, bool)],
) -> PyResult<Bound<'py, PyAny>> {
    let mut all = inputs.to_vec();
    for (_, source, _) in sources {
        if !all.iter().any(|known| known.is(source)) {
            all.push(source.clone());
        }
    }
    Ok(PyList::new(py, all)?.into_any())
}

/// Does `work`, which is given a function that runs a pass up to programs: `function` with `args`, except for outputs,
/// inputs and weights. `kept` are the runs that this pass stops at.
fn again<'py>(
    function: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    kept: &[Arc<PastRun>],
    work: impl FnOnce(&Bound<'py, PyModule>, Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let _quiet = cpython::suspend(py);
    let mut hooks = Vec::new();
    if flag(args, 4)? {
        for run in kept {
            hooks.extend(run.vary_inputs(py)?);
        }
    }
    // The pass keeps the graph, and some inputs may be unreached.
    let mut rest = args[3..].to_vec();
    (rest[0], rest[3]) = (py_true(py), py_true(py));
    let (function, rest) = (function.clone().unbind(), PyTuple::new(py, rest)?.unbind());
    let up_to_programs = cpython::fastcall(py, "up_to_programs", "", move |py, args| {
        let mut rest: Vec<_> = rest.bind(py).iter().collect();
        if let Some(creates) = args.get(5) {
            rest[1] = creates.clone();
        }
        rest[4] = rest[4].call_method1("__add__", (&args[3],))?;
        let hooks = if flag(args, 4)? { Hooks::Called } else { Hooks::Muted };
        let pass = Pass { hooks, ..Pass::new(PassKind::StopsAtPrograms) };
        let args: Vec<_> = args[..3].iter().cloned().chain(rest).collect();
        let (gradients, RunningPass { met, .. }) = run(pass, function.bind(py), &args)?;
        Ok((gradients, as_list(py, met)?).into_pyobject(py)?.into_any().unbind())
    })?;
    let made = work(&module(py)?, up_to_programs.into_any());
    hooks.into_iter().try_for_each(Hook::remove)?;
    made
}

fn py_true(py: Python<'_>) -> Bound<'_, PyAny> {
    PyBool::new(py, true).to_owned().into_any()
}

/// Converts gradients that have reached programs for Python: number of the run, function that calls its statements
/// again, index of the result, gradient.
fn as_list(py: Python<'_>, met: Vec<MetGradient>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for MetGradient { run, result, gradient } in met {
        let number = run.number;
        let again =
            cpython::fastcall(py, "again", "", move |py, _| Ok(run.call_again(py)?.unwrap_or_else(|| py.None())))?;
        list.append((number, again, result, gradient))?;
    }
    Ok(list)
}
