//! A long graph as a chain of programs, run one after another. The values that one program computes are given to
//! later programs as eager tensors, so that a backward pass goes through the programs in turn.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::backend::graph::pieces::Source;
use crate::backend::paddle::release::Runner;

/// Programs that together compute one graph.
pub(crate) struct Chain {
    links: Vec<Link>,
    /// Number of scopes that a run takes.
    scopes: usize,
    /// For each result of the graph, the number of the computed value.
    results: Vec<usize>,
}

/// One program of a chain.
pub(crate) struct Link {
    /// Links that do the same share their runner.
    pub(crate) runner: Arc<dyn Runner>,
    /// Index of the scope in which the link runs.
    pub(crate) scope: usize,
    pub(crate) sources: Vec<Source>,
    /// Indices of the link's inputs that no gradient flows to.
    pub(crate) detached: Vec<usize>,
    pub(crate) parameters: Vec<usize>,
    /// Numbers of the computed values that no later link takes and that are no result: they are released after this
    /// link.
    pub(crate) done_with: Vec<usize>,
}

impl Chain {
    /// `links` are in the order in which they run. `results` has, for each result of the graph, the number of the
    /// computed value.
    pub(crate) fn new(mut links: Vec<Link>, results: Vec<usize>) -> Self {
        let mut seen: std::collections::HashSet<usize> = results.iter().copied().collect();
        for link in links.iter_mut().rev() {
            let taken = link.sources.iter().filter_map(|source| match source {
                Source::Computed(at) => Some(*at),
                Source::Input(_) => None,
            });
            link.done_with = taken.filter(|at| seen.insert(*at)).collect();
        }
        let scopes = links.iter().map(|link| link.scope + 1).max().unwrap_or(0);
        Chain { links, scopes, results }
    }
}

impl Link {
    fn inputs<'py>(
        &self,
        inputs: &Bound<'py, PyTuple>,
        computed: &[Option<Bound<'py, PyAny>>],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = inputs.py();
        let mut given = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            given.push(match *source {
                Source::Input(at) => inputs.get_item(at)?,
                Source::Computed(at) => found(computed, at)?,
            });
        }
        for &at in &self.detached {
            given[at] = given[at].call_method0(intern!(py, "detach"))?;
        }
        PyTuple::new(py, given)
    }
}

fn found<'py>(computed: &[Option<Bound<'py, PyAny>>], at: usize) -> PyResult<Bound<'py, PyAny>> {
    let value = computed.get(at).cloned().flatten();
    value.ok_or_else(|| pyo3::exceptions::PySystemError::new_err("a piece of a program takes what none has computed"))
}

impl Runner for Chain {
    fn scopes(&self) -> usize {
        self.scopes
    }

    fn run<'py>(
        &self,
        inputs: &Bound<'py, PyTuple>,
        parameters: &Bound<'py, PyTuple>,
        scopes: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = inputs.py();
        let mut computed: Vec<Option<Bound<'py, PyAny>>> = Vec::new();
        for link in &self.links {
            let own = link.parameters.iter().map(|&at| parameters.get_item(at)).collect::<PyResult<Vec<_>>>()?;
            let scope = PyList::new(py, [scopes.get_item(link.scope)?])?;
            let given = link.inputs(inputs, &computed)?;
            let results = link.runner.run(&given, &PyTuple::new(py, own)?, &scope)?;
            drop(given);
            for &at in &link.done_with {
                computed[at] = None;
            }
            for result in results.try_iter()? {
                computed.push(Some(result?));
            }
        }
        let results = self.results.iter().map(|&at| found(&computed, at)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(py, results)?.into_any())
    }
}
