//! The exception table of 3.11 and newer: ranges in two-byte units, encoded as big-endian groups of six bits. The
//! first byte of an entry has the top bit set.

use super::BytecodeError;

const ENTRY: u8 = 0x80;
const MORE: u8 = 0x40;
const GROUP: u8 = 0x3f;

/// One entry, in units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExceptionTableEntry {
    pub(super) start: u32,
    pub(super) length: u32,
    pub(super) target: u32,
    pub(super) depth: u32,
    pub(super) lasti: bool,
}

pub(super) fn decode(table: &[u8]) -> Result<Vec<ExceptionTableEntry>, BytecodeError> {
    let mut reader = ExceptionTableReader { table, at: 0 };
    let mut entries = Vec::new();
    while reader.at < table.len() {
        entries.push(reader.entry()?);
    }
    Ok(entries)
}

pub(super) fn encode(entries: &[ExceptionTableEntry]) -> Vec<u8> {
    let mut table = Vec::with_capacity(entries.len() * 5);
    for entry in entries {
        let first = table.len();
        put(&mut table, entry.start);
        table[first] |= ENTRY;
        put(&mut table, entry.length);
        put(&mut table, entry.target);
        put(&mut table, entry.depth << 1 | u32::from(entry.lasti));
    }
    table
}

fn put(table: &mut Vec<u8>, value: u32) {
    let groups = (32 - value.leading_zeros()).div_ceil(6).max(1);
    for group in (0..groups).rev() {
        let more = if group > 0 { MORE } else { 0 };
        table.push((value >> (6 * group)) as u8 & GROUP | more);
    }
}

struct ExceptionTableReader<'a> {
    table: &'a [u8],
    at: usize,
}

impl ExceptionTableReader<'_> {
    fn entry(&mut self) -> Result<ExceptionTableEntry, BytecodeError> {
        if self.table[self.at] & ENTRY == 0 {
            return Err(BytecodeError::ExceptionTable { byte: self.at, what: "no entry starts here" });
        }
        let (start, length, target) = (self.number()?, self.number()?, self.number()?);
        let depth = self.number()?;
        Ok(ExceptionTableEntry { start, length, target, depth: depth >> 1, lasti: depth & 1 != 0 })
    }

    fn number(&mut self) -> Result<u32, BytecodeError> {
        let mut value: u32 = 0;
        loop {
            let byte = *self
                .table
                .get(self.at)
                .ok_or(BytecodeError::ExceptionTable { byte: self.at, what: "it ends inside an entry" })?;
            if value >> 26 != 0 {
                return Err(BytecodeError::ExceptionTable { byte: self.at, what: "a number has more than 32 bits" });
            }
            value = value << 6 | u32::from(byte & GROUP);
            self.at += 1;
            if byte & MORE == 0 {
                return Ok(value);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_survive() {
        for value in [0, 1, 63, 64, 4095, 4096, 1 << 18, u32::MAX >> 1] {
            let entry = ExceptionTableEntry {
                start: value,
                length: value,
                target: value,
                depth: value >> 1,
                lasti: value & 1 == 1,
            };
            let table = encode(&[entry, entry]);
            assert_eq!(decode(&table).unwrap(), [entry, entry]);
        }
    }

    #[test]
    fn an_entry_is_written_as_cpython_writes_it() {
        let entry = ExceptionTableEntry { start: 20, length: 2, target: 100, depth: 3, lasti: true };
        assert_eq!(encode(&[entry]), [0x94, 0x02, 0x41, 0x24, 0x07]);
    }

    #[test]
    fn garbage_is_an_error() {
        for table in [&[0x14, 2][..], &[0x94, 2, 1], &[0x94, 0x40], &[0xff, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f]] {
            assert!(decode(table).is_err(), "{table:?}");
        }
    }
}
