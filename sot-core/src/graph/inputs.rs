//! The values that enter a graph from outside: inputs, which new code passes at each call, and parameters.

use rustc_hash::FxHashMap;

use super::SymbolId;
use crate::cpython::WeakRef;
use crate::entity::VarId;

/// A value that new code passes to the graph.
struct PassedInput {
    symbol: SymbolId,
    variable: VarId,
    is_number: bool,
}

/// A tensor that belongs to the graph, because every call has the same one.
struct Parameter {
    symbol: SymbolId,
    variable: VarId,
    /// `None` if the object cannot be referred to weakly.
    object: Option<WeakRef>,
}

/// The values that enter a graph from outside.
#[derive(Default)]
pub(crate) struct GraphInputs {
    /// The symbol of each variable whose value has entered.
    symbols: FxHashMap<VarId, SymbolId>,
    passed: Vec<PassedInput>,
    parameters: Vec<Parameter>,
    /// Variables of the sizes that are values of the graph, by name of the tensor and axis.
    sizes: FxHashMap<(String, usize), VarId>,
    /// Numbers that equal sizes of results and are computed from sizes of inputs, by name of the result and axis.
    derived_sizes: FxHashMap<(String, usize), VarId>,
    /// Number of arguments of statements that are open sizes or computed from these, and one more for each tensor
    /// that enters with an open size.
    sizes_taken: usize,
}

impl GraphInputs {
    /// Adds an input that is passed at each call. Inputs keep the order in which they are added.
    pub(crate) fn pass(&mut self, symbol: SymbolId, variable: VarId) {
        self.add_passed(symbol, variable, false);
    }

    /// [`GraphInputs::pass`] for a number, of which a program has to make a tensor.
    pub(crate) fn pass_number(&mut self, symbol: SymbolId, variable: VarId) {
        self.add_passed(symbol, variable, true);
    }

    fn add_passed(&mut self, symbol: SymbolId, variable: VarId, is_number: bool) {
        self.symbols.insert(variable, symbol);
        self.passed.push(PassedInput { symbol, variable, is_number });
    }

    /// Adds a parameter.
    pub(crate) fn add_parameter(&mut self, symbol: SymbolId, variable: VarId, object: Option<WeakRef>) {
        self.symbols.insert(variable, symbol);
        self.parameters.push(Parameter { symbol, variable, object });
    }

    /// Returns the symbol of a variable, if its value has entered the graph.
    pub(crate) fn symbol_of(&self, variable: VarId) -> Option<SymbolId> {
        self.symbols.get(&variable).copied()
    }

    /// The variables whose values have entered, in no order, with their symbols.
    pub(crate) fn entered(&self) -> impl Iterator<Item = (VarId, SymbolId)> + '_ {
        self.symbols.iter().map(|(variable, symbol)| (*variable, *symbol))
    }

    /// True if no value has entered.
    pub(crate) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// True if the variable's value is a parameter of the graph.
    pub(crate) fn is_parameter(&self, variable: VarId) -> bool {
        self.parameters.iter().any(|parameter| parameter.variable == variable)
    }

    /// The variables of the inputs, in the order in which the graph takes them.
    pub(crate) fn passed(&self) -> impl Iterator<Item = VarId> + '_ {
        self.passed.iter().map(|input| input.variable)
    }

    /// The variable of the input with a symbol.
    pub(super) fn variable_of(&self, symbol: SymbolId) -> Option<VarId> {
        self.passed.iter().find(|input| input.symbol == symbol).map(|input| input.variable)
    }

    /// The symbols of the inputs, in the order in which the graph takes them.
    pub(super) fn passed_symbols(&self) -> impl Iterator<Item = SymbolId> + '_ {
        self.passed.iter().map(|input| input.symbol)
    }

    /// The variables of the parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = VarId> + '_ {
        self.parameters.iter().map(|parameter| parameter.variable)
    }

    /// Takes the symbols of the parameters with their objects; `None` if one cannot be referred to weakly.
    pub(super) fn take_parameter_objects(&mut self) -> Option<Vec<(SymbolId, WeakRef)>> {
        self.parameters.iter_mut().map(|parameter| Some((parameter.symbol, parameter.object.take()?))).collect()
    }

    /// Returns the symbol of the number whose variable is like that.
    pub(crate) fn passed_number(&self, is_it: impl Fn(VarId) -> bool) -> Option<SymbolId> {
        self.passed.iter().find(|input| input.is_number && is_it(input.variable)).map(|input| input.symbol)
    }

    /// Number of inputs that are numbers.
    pub(super) fn numbers(&self) -> usize {
        self.passed.iter().filter(|input| input.is_number).count()
    }

    /// Returns the variable of a dimension's size, if the size is a value of the graph already.
    pub(crate) fn known_size(&self, tensor: &str, axis: usize) -> Option<VarId> {
        self.sizes.get(&(tensor.to_owned(), axis)).copied()
    }

    /// Notes the variable that holds the size of a dimension.
    pub(crate) fn note_size(&mut self, tensor: String, axis: usize, variable: VarId) {
        self.sizes.insert((tensor, axis), variable);
    }

    /// Returns the number that equals a result's size, if it was derived already.
    pub(crate) fn derived_size(&self, result: &str, axis: usize) -> Option<VarId> {
        self.derived_sizes.get(&(result.to_owned(), axis)).copied()
    }

    /// Notes the number that equals the size of a result.
    pub(crate) fn note_derived_size(&mut self, result: String, axis: usize, number: VarId) {
        self.derived_sizes.insert((result, axis), number);
    }

    /// Counts an open size that is given to a statement, or a tensor that enters with an open size.
    pub(crate) fn note_size_taken(&mut self) {
        self.sizes_taken += 1;
    }

    /// Number of open sizes that were counted.
    pub(super) fn sizes_taken(&self) -> usize {
        self.sizes_taken
    }

    /// Removes the values of variables that are gone: `first_gone` and all later ones.
    pub(super) fn roll_back(&mut self, first_gone: VarId) {
        self.symbols.retain(|variable, _| *variable < first_gone);
        self.passed.retain(|input| input.variable < first_gone);
        self.parameters.retain(|parameter| parameter.variable < first_gone);
        self.sizes.retain(|_, variable| *variable < first_gone);
        self.derived_sizes.retain(|_, number| *number < first_gone);
    }
}
