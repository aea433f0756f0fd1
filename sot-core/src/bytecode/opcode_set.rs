//! Sets of opcodes.

/// Some opcodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpcodeSet([u64; 4]);

impl OpcodeSet {
    /// Puts an opcode in.
    pub fn insert(&mut self, opcode: u8) {
        self.0[usize::from(opcode / 64)] |= 1 << (opcode % 64);
    }

    /// Puts in what is in another.
    pub fn extend(&mut self, other: OpcodeSet) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    /// Whether an opcode is in it.
    #[must_use]
    pub fn contains(&self, opcode: u8) -> bool {
        self.0[usize::from(opcode / 64)] >> (opcode % 64) & 1 != 0
    }
}
