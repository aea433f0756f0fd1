//! Sets of opcodes.

/// A set of opcodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpcodeSet([u64; 4]);

impl OpcodeSet {
    /// Adds an opcode.
    pub fn insert(&mut self, opcode: u8) {
        self.0[usize::from(opcode / 64)] |= 1 << (opcode % 64);
    }

    /// Adds the opcodes of another set.
    pub fn extend(&mut self, other: OpcodeSet) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    /// True if the opcode is in the set.
    #[must_use]
    pub fn contains(&self, opcode: u8) -> bool {
        self.0[usize::from(opcode / 64)] >> (opcode % 64) & 1 != 0
    }
}
