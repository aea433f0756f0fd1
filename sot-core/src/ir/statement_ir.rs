//! StatementIR: the tensor work of a translation as a list of statements, as people read it.

use std::fmt;

use super::{CallKind, TensorMeta};

/// Kind of a statement's callee.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatementKind {
    /// `call_api`: a function of the framework.
    Api,
    /// `call_method`: a method of its first argument.
    Method,
    /// `call_sir`: another StatementIR.
    Sir,
    /// An object of the framework, called as a whole. The word is the framework's name for such objects.
    Object(&'static str),
    /// `call_inplace`: a method or function that gives its first argument a new value.
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
    /// The word that a printed statement begins with.
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
    /// Kind of the callee.
    pub kind: StatementKind,
    /// Name of the callee.
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
    /// The statements in order.
    pub statements: Vec<Statement>,
    /// Why the statements are called one by one, if they are.
    pub replayed: Option<&'static str>,
    /// The `StatementIR`s that `call_sir` statements call. A part comes before the parts that call it.
    pub parts: Vec<StatementIR>,
}

impl StatementIR {
    /// Number of operations, with those of called `StatementIR`s.
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

/// A graph as it is exported. Symbols are in the order in which they were made.
pub struct Exported<'a> {
    /// The statements, without units folded to `call_sir`.
    pub ir: &'a StatementIR,
    /// For each statement the target that its result is assigned to.
    pub targets: &'a [String],
    /// Symbols given at each call, with metas.
    pub inputs: Vec<(String, TensorMeta)>,
    /// Symbols of parameters and buffers, with metas.
    pub parameters: Vec<(String, TensorMeta)>,
}
