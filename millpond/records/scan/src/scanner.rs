//! The first pass: which records are taken, and where their members stand.

use std::collections::HashMap;

use crate::batch::{Batch, Member, OddMember};
use crate::json::{Reader, Text};
use crate::mode::Mode;

/// One key and its column.
#[derive(Debug)]
pub struct Column {
    /// None where the key cannot stand in JSON as it is, and so is not found here.
    name: Option<Box<[u8]>>,
    pub mode: Mode,
    /// The number of the record the key was seen in last, so that one that stands twice is noticed.
    seen_in: u64,
    /// The column whose key came after this one last time: it comes again, most times.
    next: usize,
}

/// Reads batches of records that have no other keys than those of its columns.
#[derive(Debug)]
pub struct Scanner {
    pub columns: Vec<Column>,
    pub batch: Batch,
    by_name: HashMap<Box<[u8]>, usize>,
    first: usize,
    records: u64,
}

impl Scanner {
    /// A scanner of these keys.
    pub fn new(columns: impl IntoIterator<Item = (Box<[u8]>, Mode)>) -> Self {
        let columns: Vec<Column> = columns
            .into_iter()
            .enumerate()
            .map(|(number, (name, mode))| Column {
                name: Some(name).filter(|name| is_written_as_it_is(name)),
                mode,
                seen_in: 0,
                next: number + 1,
            })
            .collect();
        let by_name = columns
            .iter()
            .enumerate()
            .filter_map(|(number, column)| Some((column.name.clone()?, number)))
            .collect();
        Self { columns, batch: Batch::default(), by_name, first: 0, records: 0 }
    }

    /// Look at the records of which `data` consists, one after the other, each of a length in `lengths`.
    ///
    /// None where the lengths are not those of the data, or the data too much for 32 bits.
    pub fn scan(&mut self, data: &[u8], lengths: &[u64]) -> Option<()> {
        self.batch.clear(self.columns.len());
        if i32::try_from(data.len()).is_err() {
            return None;
        }
        let mut rest = data;
        for (record, length) in (0_u32..).zip(lengths) {
            let length = usize::try_from(*length).ok().filter(|length| *length <= rest.len())?;
            let (bytes, others) = rest.split_at(length);
            let start = data.len() - rest.len();
            rest = others;
            let (members, odd) = (self.batch.members.len(), self.batch.odd.len());
            if self.record(bytes, start, record).is_some() {
                self.count(members);
                self.batch.ends.push(self.batch.members.len());
            } else {
                self.batch.members.truncate(members);
                self.batch.odd.truncate(odd);
                self.batch.declined.push(record);
            }
        }
        rest.is_empty().then_some(())
    }

    fn count(&mut self, members: usize) {
        for member in &self.batch.members[members..] {
            let count = &mut self.batch.counts[member.column as usize];
            count.values += 1;
            count.text += member.length();
        }
    }

    fn record(&mut self, bytes: &[u8], start: usize, record: u32) -> Option<()> {
        if std::str::from_utf8(bytes).is_err() {
            return None;
        }
        self.records += 1;
        let mut reader = Reader::new(bytes);
        reader.expect(b'{')?;
        let mut previous = None;
        if reader.token()? == b'}' {
            reader.at += 1;
        } else {
            loop {
                let column = self.key(&mut reader, previous)?;
                reader.expect(b':')?;
                self.member(&mut reader, column, start, record)?;
                previous = Some(column);
                match reader.token()? {
                    b',' => reader.at += 1,
                    b'}' => break,
                    _ => return None,
                }
            }
            reader.at += 1;
        }
        reader.token().is_none().then_some(())
    }

    /// The column of the key that stands here; None where there is none, or it stood in this record before.
    #[inline]
    fn key(&mut self, reader: &mut Reader, previous: Option<usize>) -> Option<usize> {
        if reader.token()? != b'"' {
            return None;
        }
        let guess = previous.map_or(self.first, |column| self.columns[column].next);
        let column = if self.is_here(reader, guess) {
            guess
        } else {
            let column = self.found(reader)?;
            *previous.map_or(&mut self.first, |column| &mut self.columns[column].next) = column;
            column
        };
        let seen_in = &mut self.columns[column].seen_in;
        if *seen_in == self.records {
            return None;
        }
        *seen_in = self.records;
        Some(column)
    }

    /// Pass over the key of this column if it stands here.
    #[inline]
    fn is_here(&self, reader: &mut Reader, column: usize) -> bool {
        let Some(name) = self.columns.get(column).and_then(|column| column.name.as_deref()) else {
            return false;
        };
        let rest = &reader.bytes[reader.at + 1..];
        let is_here = rest.get(name.len()) == Some(&b'"') && rest.starts_with(name);
        if is_here {
            reader.at += name.len() + 2;
        }
        is_here
    }

    fn found(&self, reader: &mut Reader) -> Option<usize> {
        let Text { start, end, .. } = reader.string()?;
        self.by_name.get(&reader.bytes[start..end]).copied()
    }

    /// Note what the member that stands here holds.
    #[inline]
    fn member(&mut self, reader: &mut Reader, column: usize, offset: usize, record: u32) -> Option<()> {
        let mode = self.columns[column].mode;
        let first = reader.token()?;
        if first == b'n' && mode != Mode::Ignored {
            return reader.word(b"null");
        }
        let begin = reader.at;
        let (value, start, end) = mode.read(reader, first)?;
        let place = |at: usize| u32::try_from(offset + at).ok();
        let column = u32::try_from(column).ok()?;
        match value {
            Some(value) => {
                self.batch.members.push(Member { column, start: place(start)?, end: place(end)?, value });
            }
            None if mode.may_be_odd() => self.batch.odd.push(OddMember {
                record,
                row: u32::try_from(self.batch.ends.len()).ok()?,
                column,
                start: place(begin)?,
                end: place(reader.at)?,
            }),
            None => return None,
        }
        Some(())
    }
}

/// Whether a key stands in JSON as its characters are.
fn is_written_as_it_is(name: &[u8]) -> bool {
    !name.iter().any(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(columns: &[(&str, Mode)], records: &[&str]) -> Scanner {
        let mut scanner = Scanner::new(
            columns.iter().map(|(name, mode)| (name.as_bytes().into(), *mode)).collect::<Vec<_>>(),
        );
        let lengths: Vec<u64> = records.iter().map(|record| record.len() as u64).collect();
        scanner.scan(records.concat().as_bytes(), &lengths).unwrap();
        scanner
    }

    fn is_taken(mode: Mode, member: &str) -> bool {
        let scanner = scanned(&[("a", mode)], &[&format!("{{\"a\":{member}}}")]);
        scanner.batch.declined.is_empty() && scanner.batch.odd.is_empty()
    }

    #[test]
    fn each_mode_takes_what_it_says() {
        let members =
            ["true", "1", "1.5", "9223372036854775808", "9007199254740992", "1e999", "\"x\"", "{}", "null"];
        for (mode, taken) in [
            (Mode::Bool, "1.......1"),
            (Mode::Int64, ".1..1...1"),
            (Mode::Float64, ".11.....1"),
            (Mode::String, "......1.1"),
            (Mode::StringOnly, "......1.1"),
            (Mode::Text, "111111111"),
            (Mode::Scalar, "11111.1.1"),
            (Mode::Empty, "........1"),
            (Mode::Ignored, "111111111"),
        ] {
            let found: String =
                members.map(|member| if is_taken(mode, member) { '1' } else { '.' }).iter().collect();
            assert_eq!(taken, found, "{mode:?}");
        }
    }

    #[test]
    fn an_odd_member_of_a_plain_column_does_not_cost_its_record() {
        let scanner =
            scanned(&[("a", Mode::Int64), ("b", Mode::StringOnly)], &["{\"b\":1}", "{\"a\": \"x\" }", "{}"]);
        assert_eq!(vec![0], scanner.batch.declined);
        assert_eq!(vec![OddMember { record: 1, row: 0, column: 0, start: 13, end: 16 }], scanner.batch.odd);
    }

    #[test]
    fn records_that_are_not_surely_known_are_declined() {
        let columns = [("a", Mode::Int64), ("b", Mode::Text)];
        for record in [
            "",
            " ",
            "[]",
            "1",
            "{",
            "{\"a\":1",
            "{\"a\":1}}",
            "{\"a\":1,}",
            "{\"a\":1}{}",
            "\u{feff}{}",
            "{\"a\":1,\"a\":2}",
            "{\"c\":1}",
            "{\"\\u0061\":1}",
            "{\"a\":1,\"\":2}",
            "{\"a\" 1}",
            "{a:1}",
        ] {
            assert_eq!(vec![0], scanned(&columns, &[record]).batch.declined, "{record}");
        }
        for record in ["{}", " { \"a\" : 1 , \"b\" : [ ] } ", "{\"b\":1,\"a\":2}"] {
            assert!(scanned(&columns, &[record]).batch.declined.is_empty(), "{record}");
        }
    }

    #[test]
    fn a_key_that_cannot_stand_as_it_is_is_never_found() {
        for name in ["a\"b", "a\\b", "\n"] {
            let record = format!("{{\"{name}\":1}}");
            assert_eq!(vec![0], scanned(&[(name, Mode::Int64)], &[&record]).batch.declined, "{name}");
        }
    }
}
