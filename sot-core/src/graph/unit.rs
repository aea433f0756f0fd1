//! Units: calls of functions that are translated themselves. Their operations are built into the caller's program
//! like all others. The StatementIR shows each such call as a `call_sir` of another StatementIR; calls with equal
//! statements share one.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Statement, StatementIR, StatementKind};

/// A range of statements that one call made.
#[derive(Clone, Debug)]
pub(super) struct CallUnit {
    pub(super) name: String,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Replaces each unit by one `call_sir`. Units come in the order in which their calls ended: inner before outer.
pub(super) fn fold(ir: &mut StatementIR, units: &[CallUnit]) {
    if units.is_empty() {
        return;
    }
    let statements = std::mem::take(&mut ir.statements);
    let mut folding = Folding { name: ir.name.clone(), parts: Vec::new() };
    let after: FxHashSet<String> = ir.outputs.iter().cloned().collect();
    ir.statements = folding.range(&statements, units, (0, statements.len()), &after);
    ir.parts = folding.parts;
}

struct Folding {
    name: String,
    parts: Vec<StatementIR>,
}

impl Folding {
    /// Folds the outermost units of a range. `after` holds the symbols used behind the range.
    fn range(
        &mut self,
        all: &[Statement],
        units: &[CallUnit],
        (start, end): (usize, usize),
        after: &FxHashSet<String>,
    ) -> Vec<Statement> {
        let mut folded = Vec::new();
        let mut at = start;
        while at < end {
            let Some(index) = units.iter().rposition(|unit| unit.start == at && unit.end <= end) else {
                folded.push(all[at].clone());
                at += 1;
                continue;
            };
            let unit = &units[index];
            let mut used_later = after.clone();
            used_later.extend(all[unit.end..end].iter().flat_map(uses));
            folded.push(self.call(all, &units[..index], unit, &used_later));
            at = unit.end;
        }
        folded
    }

    /// Returns the `call_sir` of a unit. `units` holds the unit's own inner units.
    fn call(&mut self, all: &[Statement], units: &[CallUnit], unit: &CallUnit, after: &FxHashSet<String>) -> Statement {
        let body = &all[unit.start..unit.end];
        let defined: FxHashSet<&String> = body.iter().flat_map(|statement| &statement.outputs).collect();
        let mut inputs: Vec<String> = Vec::new();
        for symbol in body.iter().flat_map(uses) {
            if !defined.contains(&symbol) && !inputs.contains(&symbol) {
                inputs.push(symbol);
            }
        }
        let outputs: Vec<String> =
            body.iter().flat_map(|statement| &statement.outputs).filter(|s| after.contains(*s)).cloned().collect();
        let statements = self.range(all, units, (unit.start, unit.end), &outputs.iter().cloned().collect());
        let mut part =
            StatementIR { inputs: inputs.clone(), outputs: outputs.clone(), statements, ..StatementIR::default() };
        part.rename();
        let callee = self.name_of(part, &unit.name);
        Statement { kind: StatementKind::Sir, callee, args: inputs, kwargs: Vec::new(), outputs }
    }

    /// Names a part. A part equal to an earlier one gets the earlier part's name.
    fn name_of(&mut self, mut part: StatementIR, function: &str) -> String {
        for known in &self.parts {
            part.name.clone_from(&known.name);
            if *known == part {
                return part.name;
            }
        }
        let stem = format!("{}_{function}", self.name);
        let numbered = (1..).map(|n| format!("{stem}_{n}"));
        let is_new = |name: &String| !self.parts.iter().any(|known| known.name == *name);
        part.name = std::iter::once(stem.clone()).chain(numbered).find(is_new).unwrap_or_default();
        self.parts.push(part.clone());
        part.name
    }
}

impl StatementIR {
    /// Renumbers the symbols in the order of their first appearance.
    fn rename(&mut self) {
        let mut names: FxHashMap<String, String> = FxHashMap::default();
        let defined = self.statements.iter().flat_map(|statement| &statement.outputs);
        for symbol in self.inputs.iter().chain(defined) {
            let next = format!("var_{}", names.len());
            names.entry(symbol.clone()).or_insert(next);
        }
        let renamed = |text: &mut String| *text = replace_symbols(text, |symbol| names.get(symbol).cloned());
        self.inputs.iter_mut().chain(&mut self.outputs).for_each(renamed);
        for statement in &mut self.statements {
            let Statement { args, kwargs, outputs, .. } = statement;
            args.iter_mut().chain(kwargs).chain(outputs).for_each(renamed);
        }
    }
}

/// The symbols that a statement uses.
pub(super) fn uses(statement: &Statement) -> Vec<String> {
    let mut found = Vec::new();
    for text in statement.args.iter().chain(&statement.kwargs) {
        replace_symbols(text, |symbol| {
            found.push(symbol.to_owned());
            None
        });
    }
    found
}

/// Replaces the symbols in the text of an argument; a name within quotes is no symbol.
fn replace_symbols(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut result = String::new();
    let mut rest = text;
    let mut quote = None;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let is_symbol = |word: &str| {
            word.strip_prefix("var_").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        if word > 0 {
            let (name, behind) = rest.split_at(word);
            let new = if quote.is_none() && is_symbol(name) { replace(name) } else { None };
            result.push_str(new.as_deref().unwrap_or(name));
            rest = behind;
            continue;
        }
        let escaped =
            if first == '\\' && quote.is_some() { rest[1..].chars().next().map_or(0, char::len_utf8) } else { 0 };
        if matches!(first, '\'' | '"') {
            quote = match quote {
                None => Some(first),
                Some(open) if open == first => None,
                open => open,
            };
        }
        let (taken, behind) = rest.split_at(first.len_utf8() + escaped);
        result.push_str(taken);
        rest = behind;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(output: &str, args: &[&str]) -> Statement {
        Statement {
            kind: StatementKind::Api,
            callee: "f".to_owned(),
            args: args.iter().map(ToString::to_string).collect(),
            kwargs: Vec::new(),
            outputs: vec![output.to_owned()],
        }
    }

    fn unit(name: &str, start: usize, end: usize) -> CallUnit {
        CallUnit { name: name.to_owned(), start, end }
    }

    fn ir(statements: Vec<Statement>, output: &str) -> StatementIR {
        StatementIR {
            name: "SIR_0".to_owned(),
            inputs: vec!["var_0".to_owned()],
            outputs: vec![output.to_owned()],
            statements,
            ..StatementIR::default()
        }
    }

    #[test]
    fn symbols_are_found_in_structures_but_not_in_strings() {
        let bump = |symbol: &str| Some(format!("<{symbol}>"));
        assert_eq!(replace_symbols("[var_1, (var_20, 'var_3')]", bump), "[<var_1>, (<var_20>, 'var_3')]");
        assert_eq!(
            replace_symbols(r#"'it\'s var_1', "var_2", my_var_3, var_x"#, bump),
            r#"'it\'s var_1', "var_2", my_var_3, var_x"#
        );
    }

    #[test]
    fn alike_units_are_one() {
        let mut ir = ir(
            vec![
                statement("var_1", &["var_0", "2"]),
                statement("var_2", &["var_1"]),
                statement("var_3", &["var_2", "2"]),
                statement("var_4", &["var_3"]),
            ],
            "var_4",
        );
        fold(&mut ir, &[unit("block", 0, 2), unit("block", 2, 4)]);
        assert_eq!(
            ir.to_string(),
            "StatementIR: SIR_0_block\n  inputs: ['var_0']\n  outputs: ['var_2']\n  statements:\n    \
             api        || var_1 = f ((var_0, 2), {})\n    api        || var_2 = f ((var_1,), {})\n\
             StatementIR: SIR_0\n  inputs: ['var_0']\n  outputs: ['var_4']\n  statements:\n    \
             sir        || var_2 = SIR_0_block ((var_0,), {})\n    sir        || var_4 = SIR_0_block ((var_2,), {})"
        );
        assert_eq!(ir.operations(), 4);
    }

    #[test]
    fn units_nest_and_differ() {
        let mut ir = ir(
            vec![statement("var_1", &["var_0"]), statement("var_2", &["var_1"]), statement("var_3", &["var_2", "3"])],
            "var_3",
        );
        fold(&mut ir, &[unit("inner", 1, 2), unit("outer", 0, 2), unit("inner", 2, 3)]);
        let names: Vec<&str> = ir.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["SIR_0_inner", "SIR_0_outer", "SIR_0_inner_1"]);
        assert_eq!(ir.parts[1].statements[1].to_string(), "sir        || var_2 = SIR_0_inner ((var_1,), {})");
        assert_eq!((ir.statements.len(), ir.operations()), (2, 3));
    }

    #[test]
    fn a_unit_that_is_all_of_another_is_inside_it() {
        let mut ir = ir(vec![statement("var_1", &["var_0"])], "var_1");
        fold(&mut ir, &[unit("inner", 0, 1), unit("outer", 0, 1)]);
        assert_eq!(ir.parts.len(), 2);
        assert_eq!(ir.statements[0].callee, "SIR_0_outer");
        assert_eq!(ir.operations(), 1);
    }
}
