//! The definition of a property: opcodes, fragments of Python around them, and kinds of operands.

use pyo3::prelude::*;
use sot_core::bytecode::{Code, Instruction, Label};

use super::operands::Kind;

/// A property of some opcodes. A fragment that the running interpreter cannot parse, or compiles without the opcode,
/// is skipped. Each opcode needs at least one fragment that is not.
#[derive(Debug)]
pub struct Property {
    /// The opcodes.
    pub opcodes: &'static [&'static str],
    /// Kinds of the operands `a`, `b` and `c`.
    pub operands: &'static [Kind],
    /// Statements that may assign the result `r`.
    pub fragments: &'static [&'static str],
    /// Inserts the opcode into compiled code, if no fragment compiles to it.
    pub assemble: Option<fn(&mut Code, u8)>,
    /// Source file of the registration.
    pub file: &'static str,
    /// Source line of the registration.
    pub line: u32,
}

inventory::collect!(Property);

/// Registers a property: `property! { [BINARY_ADD] (Number, Number) "r = a + b" }`. Further lines of a fragment start
/// in column 0.
#[macro_export]
macro_rules! property {
    ([$($opcode:ident)*] ($($kind:ident),*) $($fragment:literal)* $(=> $assemble:expr)?) => {
        $crate::inventory::submit! {
            $crate::properties::Property {
                opcodes: &[$(stringify!($opcode)),*],
                operands: &[$($crate::properties::Kind::$kind),*],
                fragments: &[$($fragment),*],
                assemble: $crate::property!(@assemble $($assemble)?),
                file: file!(),
                line: line!(),
            }
        }
    };
    (@assemble) => { None };
    (@assemble $assemble:expr) => { Some($assemble) };
}

impl Property {
    /// Returns the properties of an opcode, in the order of their registration.
    pub(super) fn of(opcode: &str) -> Vec<&'static Property> {
        let mut found: Vec<_> =
            inventory::iter::<Property>.into_iter().filter(|property| property.opcodes.contains(&opcode)).collect();
        found.sort_by_key(|property| (property.file, property.line));
        found
    }
}

/// Counts the occurrences of an opcode in a code object and in the code objects among its constants.
pub(super) fn occurrences_in(code: &Bound<'_, PyAny>, opcode: u8) -> PyResult<usize> {
    let bytes: Vec<u8> = code.getattr("co_code")?.extract()?;
    let mut count = bytes.iter().step_by(2).filter(|&&found| found == opcode).count();
    for constant in code.getattr("co_consts")?.try_iter()? {
        let constant = constant?;
        if constant.hasattr("co_code")? {
            count += occurrences_in(&constant, opcode)?;
        }
    }
    Ok(count)
}

/// Inserts an instruction without operands after each instruction.
pub fn intersperse(code: &mut Code, opcode: u8) {
    let place = |at: Label| Label(2 * at.0);
    let mut instructions = Vec::with_capacity(2 * code.instructions.len());
    for instruction in &code.instructions {
        let target = instruction.target.map(place);
        instructions.push(Instruction { target, ..*instruction });
        instructions.push(Instruction { opcode, arg: 0, target: None, ..*instruction });
    }
    code.instructions = instructions;
}
