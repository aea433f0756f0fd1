//! StatementIR: the tensor work of a translation as a list of statements, as people read it.

use std::fmt;

use super::{CallKind, TensorMeta};

/// What a statement calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatementKind {
    /// `call_api`: a function of the framework.
    Api,
    /// `call_method`: a method of its first argument.
    Method,
    /// `call_sir`: another StatementIR.
    Sir,
    /// An object of the framework as a whole, by the framework's word for it.
    Object(&'static str),
    /// `call_inplace`: a method or function whose first argument is from then on what it gives.
    InPlace,
}

impl From<CallKind> for StatementKind {
    fn from(kind: CallKind) -> Self {
        match kind {
            CallKind::Api => StatementKind::Api,
            CallKind::Method => StatementKind::Method,
            CallKind::Object(word) => StatementKind::Object(word),
            CallKind::InPlace => StatementKind::InPlace,
        }
    }
}

impl StatementKind {
    /// How a statement prints it.
    pub fn word(self) -> &'static str {
        match self {
            StatementKind::Api => "api",
            StatementKind::Method => "method",
            StatementKind::Sir => "sir",
            StatementKind::Object(word) => word,
            StatementKind::InPlace => "inplace",
        }
    }
}

/// One call in the graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// What is called.
    pub kind: StatementKind,
    /// Its name.
    pub callee: String,
    /// Positional arguments: symbols and literals.
    pub args: Vec<String>,
    /// Keyword arguments, as `name: value`.
    pub kwargs: Vec<String>,
    /// Symbols of the results.
    pub outputs: Vec<String>,
}

/// The statements of one graph.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StatementIR {
    /// `SIR_0`, `SIR_1`, ...
    pub name: String,
    /// Symbols given at each call.
    pub inputs: Vec<String>,
    /// Symbols returned.
    pub outputs: Vec<String>,
    /// The calls in order.
    pub statements: Vec<Statement>,
    /// Why the calls are made one by one, if they are.
    pub replayed: Option<&'static str>,
    /// The `StatementIR`s that `call_sir` statements call, before those that call them.
    pub parts: Vec<StatementIR>,
}

impl StatementIR {
    /// How many operations it comes to, those of called `StatementIR`s included.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.count(&self.parts)
    }

    fn count(&self, parts: &[StatementIR]) -> usize {
        let operations = |statement: &Statement| match statement.kind {
            StatementKind::Sir => {
                parts.iter().find(|part| part.name == statement.callee).map_or(0, |part| part.count(parts))
            }
            _ => 1,
        };
        self.statements.iter().map(operations).sum()
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.word();
        let (outputs, args, kwargs) = (self.outputs.join(", "), tuple(&self.args), self.kwargs.join(", "));
        write!(f, "{kind:<10} || {outputs} = {} ({args}, {{{kwargs}}})", self.callee)
    }
}

fn tuple(items: &[String]) -> String {
    match items {
        [one] => format!("({one},)"),
        items => format!("({})", items.join(", ")),
    }
}

impl fmt::Display for StatementIR {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            writeln!(f, "{part}")?;
        }
        let list = |names: &[String]| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let how = self.replayed.map(|why| format!(" (called one by one: {why})")).unwrap_or_default();
        writeln!(f, "StatementIR: {}{how}", self.name)?;
        writeln!(f, "  inputs: [{}]", list(&self.inputs))?;
        writeln!(f, "  outputs: [{}]", list(&self.outputs))?;
        write!(f, "  statements:")?;
        for statement in &self.statements {
            write!(f, "\n    {statement}")?;
        }
        Ok(())
    }
}

/// A graph as it is exported. Symbols are in the order they were made.
pub struct Exported<'a> {
    /// Its statements; those of calls that stay together are among them.
    pub ir: &'a StatementIR,
    /// What each statement's result is assigned to.
    pub targets: &'a [String],
    /// The symbols given at each call.
    pub inputs: Vec<(String, TensorMeta)>,
    /// The symbols of parameters and buffers.
    pub parameters: Vec<(String, TensorMeta)>,
}
