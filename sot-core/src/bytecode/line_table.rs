//! The three formats of CPython's line tables: `co_lnotab` (3.8, 3.9), `co_linetable` with lines only (3.10) and with
//! columns (3.11 and newer).
//!
//! Decoding gives runs of bytes that share a position. Encoding writes the bytes that CPython's compiler would write.
//! Only for 3.8 and 3.9 may bytes differ, because that compiler also writes entries that change nothing; the lines of
//! instructions never differ.

use super::{BytecodeError, Position};
use crate::version::PyVersion;

/// A format of line tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineTable {
    /// 3.8 and 3.9: steps of bytes and lines.
    Steps,
    /// 3.10: ranges of bytes with a line or none.
    Ranges,
    /// 3.11 and newer: ranges of units with lines and columns.
    Locations {
        /// True if neighbours at the same position share an entry (3.12 and newer).
        merged: bool,
    },
}

/// Bytes from the end of the run before up to `end`, which share a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) end: usize,
    pub(super) position: Position,
}

/// An instruction in the line table's view: size in bytes with prefixes and inline caches, and position.
pub(super) type Span = (usize, Position);

impl LineTable {
    pub(super) const fn of(version: PyVersion) -> LineTable {
        match version.0 {
            ..=9 => LineTable::Steps,
            10 => LineTable::Ranges,
            11 => LineTable::Locations { merged: false },
            _ => LineTable::Locations { merged: true },
        }
    }

    /// The attribute of code objects that holds the table.
    pub(super) const fn attribute(self) -> &'static str {
        match self {
            LineTable::Steps => "co_lnotab",
            LineTable::Ranges | LineTable::Locations { .. } => "co_linetable",
        }
    }

    /// The positions of the instructions whose opcodes are at `offsets`, in ascending order.
    pub(super) fn positions(
        self,
        table: &[u8],
        first_line: u32,
        offsets: impl Iterator<Item = usize>,
    ) -> Result<Vec<Position>, BytecodeError> {
        let runs = self.decode(table, first_line)?;
        let mut runs = runs.iter().peekable();
        let position_of = |offset| {
            while runs.next_if(|run| run.end <= offset).is_some() {}
            runs.peek().map_or(Position::default(), |run| run.position)
        };
        Ok(offsets.map(position_of).collect())
    }

    fn decode(self, table: &[u8], first_line: u32) -> Result<Vec<Run>, BytecodeError> {
        match self {
            LineTable::Steps => Ok(decode_steps(table, first_line)),
            LineTable::Ranges => Ok(decode_ranges(table, first_line)),
            LineTable::Locations { .. } => decode_locations(table, first_line),
        }
    }

    pub(super) fn encode(self, first_line: u32, spans: &[Span]) -> Vec<u8> {
        match self {
            LineTable::Steps => encode_steps(first_line, spans),
            LineTable::Ranges => encode_ranges(first_line, &merge(spans)),
            LineTable::Locations { merged: true } => encode_locations(first_line, &merge(spans)),
            LineTable::Locations { merged: false } => encode_locations(first_line, spans),
        }
    }
}

fn merge(spans: &[Span]) -> Vec<Span> {
    let mut merged: Vec<Span> = Vec::new();
    for &(size, position) in spans {
        match merged.last_mut() {
            Some(last) if last.1 == position => last.0 += size,
            _ => merged.push((size, position)),
        }
    }
    merged
}

/// A position with this line. A negative line, which only occurs in hand-made syntax trees, counts as none.
fn only_line(line: i64) -> Position {
    Position { line: u32::try_from(line).ok(), ..Position::default() }
}

fn decode_steps(table: &[u8], first_line: u32) -> Vec<Run> {
    let (mut end, mut line) = (0, i64::from(first_line));
    let mut runs = Vec::new();
    for step in table.chunks_exact(2) {
        if step[0] != 0 {
            end += usize::from(step[0]);
            runs.push(Run { end, position: only_line(line) });
        }
        line += i64::from(step[1] as i8);
    }
    runs.push(Run { end: usize::MAX, position: only_line(line) });
    runs
}

/// An instruction without a line gets the line before it, because the format has no entry for "no line".
fn encode_steps(first_line: u32, spans: &[Span]) -> Vec<u8> {
    let (mut table, mut bytes, mut current) = (Vec::new(), 0, first_line);
    for (size, position) in spans {
        let line = position.line.unwrap_or(current);
        if line != current {
            put_step(&mut table, bytes, i64::from(line) - i64::from(current));
            (bytes, current) = (0, line);
        }
        bytes += size;
    }
    table
}

fn put_step(table: &mut Vec<u8>, mut bytes: usize, mut lines: i64) {
    while bytes > 255 {
        table.extend([255, 0]);
        bytes -= 255;
    }
    while lines != 0 {
        let step = lines.clamp(-128, 127);
        table.extend([bytes as u8, step as u8]);
        (bytes, lines) = (0, lines - step);
    }
}

const NO_LINE: i8 = -128;

fn decode_ranges(table: &[u8], first_line: u32) -> Vec<Run> {
    let (mut end, mut line) = (0, i64::from(first_line));
    let mut runs = Vec::new();
    for range in table.chunks_exact(2) {
        let delta = range[1] as i8;
        let position = if delta == NO_LINE {
            Position::default()
        } else {
            line += i64::from(delta);
            only_line(line)
        };
        end += usize::from(range[0]);
        if range[0] != 0 {
            runs.push(Run { end, position });
        }
    }
    runs
}

fn encode_ranges(first_line: u32, spans: &[Span]) -> Vec<u8> {
    let (mut table, mut current) = (Vec::new(), i64::from(first_line));
    for (size, position) in spans {
        let Some(line) = position.line.map(i64::from) else {
            put_range(&mut table, *size, NO_LINE, NO_LINE);
            continue;
        };
        let mut delta = line - current;
        while delta.abs() > 127 {
            let step = delta.clamp(-127, 127);
            table.extend([0, step as u8]);
            delta -= step;
        }
        put_range(&mut table, *size, delta as i8, 0);
        current = line;
    }
    table
}

fn put_range(table: &mut Vec<u8>, mut bytes: usize, mut delta: i8, next_delta: i8) {
    while bytes > 254 {
        table.extend([254, delta as u8]);
        (bytes, delta) = (bytes - 254, next_delta);
    }
    table.extend([bytes as u8, delta as u8]);
}

/// Kinds of entries in 3.11 and newer. Kinds 0 to 9 hold the upper bits of the column; the other kinds are listed
/// here.
mod kind {
    pub(super) const SAME_LINE: u8 = 10;
    pub(super) const TWO_LINES_ON: u8 = 12;
    pub(super) const NO_COLUMNS: u8 = 13;
    pub(super) const LONG: u8 = 14;
    pub(super) const NONE: u8 = 15;
}

const MAX_UNITS: usize = 8;

fn decode_locations(table: &[u8], first_line: u32) -> Result<Vec<Run>, BytecodeError> {
    let mut reader = LineTableReader { table, at: 0 };
    let (mut end, mut line) = (0, i64::from(first_line));
    let mut runs = Vec::new();
    while reader.at < table.len() {
        let head = reader.byte()?;
        let position = reader.location(head >> 3 & 15, &mut line)?;
        end += 2 * (usize::from(head & 7) + 1);
        runs.push(Run { end, position });
    }
    Ok(runs)
}

fn encode_locations(first_line: u32, spans: &[Span]) -> Vec<u8> {
    let (mut table, mut line) = (Vec::new(), i64::from(first_line));
    for (size, position) in spans {
        let mut units = size / 2;
        while units > 0 {
            let some = units.min(MAX_UNITS);
            put_location(&mut table, some, position, &mut line);
            units -= some;
        }
    }
    table
}

fn put_location(table: &mut Vec<u8>, units: usize, position: &Position, current: &mut i64) {
    let head = |kind: u8| 0x80 | kind << 3 | (units - 1) as u8;
    let Some(line) = position.line else {
        table.push(head(kind::NONE));
        return;
    };
    let delta = i64::from(line) - *current;
    *current = i64::from(line);
    let end_line = position.end_line.unwrap_or(line);
    match (position.column, position.end_column) {
        (None, None) if end_line == line => {
            table.push(head(kind::NO_COLUMNS));
            put_signed(table, delta);
        }
        (Some(start), Some(end))
            if end_line == line && delta == 0 && start < 80 && (start..start + 16).contains(&end) =>
        {
            table.push(head((start >> 3) as u8));
            table.push(((start & 7) << 4 | (end - start)) as u8);
        }
        (Some(start), Some(end)) if end_line == line && (0..3).contains(&delta) && start < 128 && end < 128 => {
            table.push(head(kind::SAME_LINE + delta as u8));
            table.extend([start as u8, end as u8]);
        }
        (start, end) => {
            table.push(head(kind::LONG));
            put_signed(table, delta);
            put_unsigned(table, u64::from(end_line.saturating_sub(line)));
            put_unsigned(table, start.map_or(0, |column| u64::from(column) + 1));
            put_unsigned(table, end.map_or(0, |column| u64::from(column) + 1));
        }
    }
}

fn put_unsigned(table: &mut Vec<u8>, mut value: u64) {
    while value >= 64 {
        table.push(0x40 | (value & 63) as u8);
        value >>= 6;
    }
    table.push(value as u8);
}

fn put_signed(table: &mut Vec<u8>, value: i64) {
    put_unsigned(table, value.unsigned_abs() << 1 | u64::from(value < 0));
}

struct LineTableReader<'a> {
    table: &'a [u8],
    at: usize,
}

impl LineTableReader<'_> {
    fn location(&mut self, kind: u8, line: &mut i64) -> Result<Position, BytecodeError> {
        let (column, end_column) = match kind {
            kind::NONE => return Ok(Position::default()),
            kind::LONG => return self.long_location(line),
            kind::NO_COLUMNS => {
                *line = line.wrapping_add(self.signed()?);
                (None, None)
            }
            kind::SAME_LINE..=kind::TWO_LINES_ON => {
                *line = line.wrapping_add(i64::from(kind - kind::SAME_LINE));
                (Some(u32::from(self.byte()?)), Some(u32::from(self.byte()?)))
            }
            _ => {
                let byte = u32::from(self.byte()?);
                let column = u32::from(kind) << 3 | byte >> 4;
                (Some(column), Some(column + (byte & 15)))
            }
        };
        let position = only_line(*line);
        Ok(Position { end_line: position.line, column, end_column, ..position })
    }

    fn long_location(&mut self, line: &mut i64) -> Result<Position, BytecodeError> {
        *line = line.wrapping_add(self.signed()?);
        let end_line = line.wrapping_add(self.unsigned()? as i64);
        let column = self.column()?;
        let end_column = self.column()?;
        Ok(Position { end_line: u32::try_from(end_line).ok(), column, end_column, ..only_line(*line) })
    }

    /// Reads a column: stored plus one, and zero for none.
    fn column(&mut self) -> Result<Option<u32>, BytecodeError> {
        Ok(self.unsigned()?.checked_sub(1).and_then(|column| u32::try_from(column).ok()))
    }

    fn signed(&mut self) -> Result<i64, BytecodeError> {
        let value = self.unsigned()?;
        let size = (value >> 1) as i64;
        Ok(if value & 1 == 0 { size } else { -size })
    }

    fn unsigned(&mut self) -> Result<u64, BytecodeError> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 63).checked_shl(shift).unwrap_or(0);
            shift += 6;
            if byte & 0x40 == 0 {
                return Ok(value);
            }
        }
    }

    fn byte(&mut self) -> Result<u8, BytecodeError> {
        let byte = *self.table.get(self.at).ok_or(BytecodeError::LineTable { byte: self.at })?;
        self.at += 1;
        Ok(byte)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;

    fn round_trip(format: LineTable, spans: &[Span]) {
        let table = format.encode(100, spans);
        let mut at = 0;
        let offsets = spans.iter().map(|(size, _)| {
            at += size;
            at - size
        });
        let found = format.positions(&table, 100, offsets).unwrap();
        let wanted: Vec<_> = spans.iter().map(|span| span.1).collect();
        assert_eq!(found, wanted, "{format:?} {table:?}");
    }

    const LINES: [u32; 9] = [100, 101, 101, 400, 90, 5, 5, 70_000, 1];

    #[test]
    fn lines_survive_in_every_format() {
        let spans: Vec<_> =
            LINES.iter().enumerate().map(|(i, &line)| (2 + 2 * i * i * i, only_line(line.into()))).collect();
        round_trip(LineTable::Steps, &spans);
        round_trip(LineTable::Ranges, &spans);
    }

    #[test]
    fn instructions_may_have_no_line_since_3_10() {
        let mut spans: Vec<_> = LINES.iter().map(|&line| (300, only_line(line.into()))).collect();
        spans.insert(3, (600, Position::default()));
        round_trip(LineTable::Ranges, &spans);
        for (_, position) in &mut spans {
            position.end_line = position.line;
        }
        round_trip(LineTable::Locations { merged: true }, &spans);
    }

    #[test]
    fn columns_survive_in_every_form() {
        let columns = [(0, 0), (79, 94), (79, 95), (80, 81), (127, 127), (128, 3), (5, 2), (5000, 70_000)];
        let mut spans = Vec::new();
        for &line in &LINES {
            for (start, end) in columns {
                for lines in [0, 1, 90] {
                    let position = Position {
                        line: Some(line),
                        end_line: Some(line + lines),
                        column: Some(start),
                        end_column: Some(end),
                    };
                    spans.push((2 + 2 * (start as usize % 23), position));
                }
            }
        }
        spans.push((2, Position { line: Some(7), end_line: Some(9), column: Some(3), end_column: None }));
        round_trip(LineTable::Locations { merged: false }, &spans);
        round_trip(LineTable::Locations { merged: true }, &spans);
    }

    #[test]
    fn garbage_does_not_panic() {
        let mut seed: u32 = 1;
        for length in 0..4000 {
            let mut byte = || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            };
            let table: Vec<u8> = (0..length % 60).map(|_| byte()).collect();
            for format in [LineTable::Steps, LineTable::Ranges, LineTable::Locations { merged: true }] {
                let _ = format.positions(&table, 1, (0..100).step_by(2));
            }
        }
    }

    #[test]
    fn a_truncated_location_is_an_error() {
        assert!(LineTable::Locations { merged: true }.positions(&[0xf0, 0x40], 1, [0].into_iter()).is_err());
    }
}
