//! The second pass: the buffers of Arrow columns (its columnar format, little-endian, version 1).

use crate::batch::{Count, Member, Value};
use crate::json::unescaped;
use crate::mode::Mode;
use crate::scanner::Scanner;

/// Buffers begin at multiples of this, as the format asks for.
const ALIGNED: usize = 64;

/// Where the buffers of one column stand in the memory given to it. What it has no use for is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bitmap: which rows have a value. Empty where all have, or one is written for those that have none.
    pub validity: (usize, usize),
    /// Bitmap of booleans, numbers of eight bytes, or the ends of texts in four after a zero.
    pub values: (usize, usize),
    /// The bytes of texts, one after the other.
    pub text: (usize, usize),
    /// Bytes of memory that all of this takes.
    pub size: usize,
    /// Rows without a value.
    pub nulls: usize,
}

/// What a column is filled with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Bits,
    Numbers,
    Texts { missing: &'static [u8] },
    Nothing,
}

impl Layout {
    const fn of(mode: Mode) -> Self {
        match mode {
            Mode::Bool => Self::Bits,
            Mode::Int64 | Mode::Float64 => Self::Numbers,
            Mode::String | Mode::StringOnly | Mode::Text => Self::Texts { missing: b"" },
            Mode::Scalar => Self::Texts { missing: b"null" },
            Mode::Empty | Mode::Ignored => Self::Nothing,
        }
    }

    const fn has_nulls(self) -> bool {
        match self {
            Self::Bits | Self::Numbers => true,
            Self::Texts { missing } => missing.is_empty(),
            Self::Nothing => false,
        }
    }

    /// The bytes of values and of texts that so many rows need.
    const fn sizes(self, rows: usize, count: Count) -> (usize, usize) {
        match self {
            Self::Bits => (rows.div_ceil(8), 0),
            Self::Numbers => (rows * 8, 0),
            Self::Texts { missing } => ((rows + 1) * 4, count.text + missing.len() * (rows - count.values)),
            Self::Nothing => (0, 0),
        }
    }
}

/// One column while it is filled.
struct Filling<'a> {
    layout: Layout,
    validity: &'a mut [u8],
    values: &'a mut [u8],
    text: &'a mut [u8],
    /// Texts: how many rows are done, and how many bytes they took.
    rows: usize,
    at: usize,
}

impl Scanner {
    /// Where the buffers of each column go, in memory of its own: one that is kept shall not keep the others.
    ///
    /// None where a text column is too large for ends of 32 bits.
    pub fn places(&self) -> Option<Vec<Place>> {
        let rows = self.batch.rows();
        let mut places = Vec::with_capacity(self.columns.len());
        for (column, count) in self.columns.iter().zip(&self.batch.counts) {
            let layout = Layout::of(column.mode);
            let (values, text) = layout.sizes(rows, *count);
            if i32::try_from(text).is_err() {
                return None;
            }
            let nulls = rows - count.values;
            let bits = if nulls > 0 && layout.has_nulls() { rows.div_ceil(8) } else { 0 };
            let mut size = 0;
            let mut next = |bytes: usize| {
                let begin = size;
                size += bytes.next_multiple_of(ALIGNED);
                (begin, bytes)
            };
            let (validity, values, text) = (next(bits), next(values), next(text));
            places.push(Place { validity, values, text, size, nulls });
        }
        Some(places)
    }

    /// Write each column of the batch into one of `outs`, which have the sizes that `places` told.
    ///
    /// `data` is what was scanned. None where it or any of `outs` is of another size.
    pub fn fill<'a>(&self, data: &[u8], outs: impl IntoIterator<Item = &'a mut [u8]>) -> Option<()> {
        let mut columns = self.fillings(outs)?;
        let mut begin = 0;
        for (row, end) in self.batch.ends.iter().enumerate() {
            for member in self.batch.members.get(begin..*end)? {
                let bytes = data.get(member.start as usize..member.end as usize)?;
                columns.get_mut(member.column as usize)?.put(row, member, bytes)?;
            }
            begin = *end;
        }
        let rows = self.batch.rows();
        columns.iter_mut().try_for_each(|column| column.finish(rows))
    }

    fn fillings<'a>(&self, outs: impl IntoIterator<Item = &'a mut [u8]>) -> Option<Vec<Filling<'a>>> {
        let (places, mut outs) = (self.places()?, outs.into_iter());
        self.columns
            .iter()
            .zip(places)
            .map(|(column, place)| {
                let mut rest = outs.next().filter(|out| out.len() == place.size)?;
                let mut cut = |(_, size): (usize, usize)| {
                    let (padded, others) =
                        std::mem::take(&mut rest).split_at_mut_checked(size.next_multiple_of(ALIGNED))?;
                    rest = others;
                    padded[size..].fill(0);
                    padded.get_mut(..size)
                };
                let layout = Layout::of(column.mode);
                let (validity, values, text) = (cut(place.validity)?, cut(place.values)?, cut(place.text)?);
                validity.fill(0);
                match layout {
                    // Numbers of rows without a value stay what they are made here: zero.
                    Layout::Bits => values.fill(0),
                    Layout::Numbers if place.nulls > 0 => values.fill(0),
                    Layout::Texts { .. } => values[..4].fill(0),
                    _ => {}
                }
                Some(Filling { layout, validity, values, text, rows: 0, at: 0 })
            })
            .collect()
    }
}

impl Filling<'_> {
    /// Write the value of one row.
    #[inline]
    fn put(&mut self, row: usize, member: &Member, bytes: &[u8]) -> Option<()> {
        if let Some(bits) = self.validity.get_mut(row / 8) {
            *bits |= 1 << (row % 8);
        }
        match member.value {
            Value::Bool(value) => *self.values.get_mut(row / 8)? |= u8::from(value) << (row % 8),
            Value::Int64(value) => self.number(row, value.to_le_bytes())?,
            Value::Float64(value) => self.number(row, value.to_le_bytes())?,
            Value::Text => self.text(row, |text| put_plain(text, bytes))?,
            Value::Escaped(_) => self.text(row, |text| put_unescaped(text, bytes))?,
            Value::Spaced(_) => self.text(row, |text| put_without_spaces(text, bytes))?,
            Value::Ignored => {}
        }
        Some(())
    }

    #[inline]
    fn number(&mut self, row: usize, value: [u8; 8]) -> Option<()> {
        *self.values.get_mut(row * 8..)?.first_chunk_mut()? = value;
        Some(())
    }

    #[inline]
    fn text(&mut self, row: usize, put: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<()> {
        self.pass_over(row)?;
        self.at += put(self.text.get_mut(self.at..)?)?;
        self.end_row()
    }

    /// Rows without a value, up to this one.
    #[inline]
    fn pass_over(&mut self, row: usize) -> Option<()> {
        if let Layout::Texts { missing } = self.layout {
            while self.rows < row {
                self.at += put_plain(self.text.get_mut(self.at..)?, missing)?;
                self.end_row()?;
            }
        }
        Some(())
    }

    #[inline]
    fn end_row(&mut self) -> Option<()> {
        self.rows += 1;
        let end = i32::try_from(self.at).ok()?;
        *self.values.get_mut(self.rows * 4..)?.first_chunk_mut()? = end.to_le_bytes();
        Some(())
    }

    /// The rest of the rows; None where the texts did not take the bytes they were said to.
    fn finish(&mut self, rows: usize) -> Option<()> {
        self.pass_over(rows)?;
        (self.at == self.text.len()).then_some(())
    }
}

/// Each of these puts its bytes at the begin of `out`, and tells how many.
#[inline]
fn put_plain(out: &mut [u8], bytes: &[u8]) -> Option<usize> {
    out.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(bytes.len())
}

fn put_unescaped(out: &mut [u8], mut bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(plain) = bytes.iter().position(|byte| *byte == b'\\') {
        at += put_plain(out.get_mut(at..)?, &bytes[..plain])?;
        let (character, written) = unescaped(&bytes[plain..])?;
        at += put_plain(out.get_mut(at..)?, character.encode_utf8(&mut [0; 4]).as_bytes())?;
        bytes = &bytes[plain + written..];
    }
    Some(at + put_plain(out.get_mut(at..)?, bytes)?)
}

/// White space inside strings stays.
fn put_without_spaces(out: &mut [u8], bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in bytes {
        if !is_string && matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        }
        *out.get_mut(at)? = *byte;
        at += 1;
        is_string ^= *byte == b'"' && !is_escaped;
        is_escaped = is_string && !is_escaped && *byte == b'\\';
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [(&str, Mode); 6] = [
        ("i", Mode::Int64),
        ("b", Mode::Bool),
        ("t", Mode::Text),
        ("s", Mode::Scalar),
        ("e", Mode::Empty),
        ("g", Mode::Ignored),
    ];

    fn scanner() -> Scanner {
        Scanner::new(KEYS.map(|(name, mode)| (name.as_bytes().into(), mode)))
    }

    /// The columns of the batch, in memory that was full of something else.
    fn filled(scanner: &mut Scanner, records: &[&[u8]]) -> Vec<(Place, Vec<u8>)> {
        let data = records.concat();
        let lengths: Vec<u64> = records.iter().map(|record| record.len() as u64).collect();
        scanner.scan(&data, &lengths).unwrap();
        let places = scanner.places().unwrap();
        let mut outs: Vec<_> = places.iter().map(|place| vec![0xaa; place.size]).collect();
        scanner.fill(&data, outs.iter_mut().map(Vec::as_mut_slice)).unwrap();
        places.into_iter().zip(outs).collect()
    }

    fn at(out: &[u8], (begin, size): (usize, usize)) -> &[u8] {
        &out[begin..begin + size]
    }

    #[test]
    fn rows_without_a_value_are_null_and_nothing_of_declined_records_is_left() {
        let records: [&[u8]; 5] = [
            b"{}",
            br#"{"i":7,"b":true,"t":"lost","x":1}"#,
            br#"{"i":5,"t":{"a": 1}}"#,
            br#"{"b":true}"#,
            b"{}",
        ];
        let columns = filled(&mut scanner(), &records);
        let [(i, in_i), (b, in_b), (t, in_t), (s, in_s), ..] = &columns[..] else { panic!() };
        assert_eq!([0b0010], at(in_i, i.validity));
        assert_eq!([0, 5, 0, 0], at(in_i, i.values).chunks(8).map(|eight| eight[0]).collect::<Vec<_>>()[..]);
        assert_eq!(([0b0100].as_slice(), [0b0100].as_slice()), (at(in_b, b.validity), at(in_b, b.values)));
        assert_eq!(br#"{"a":1}"#, at(in_t, t.text));
        assert_eq!(b"nullnullnullnull", at(in_s, s.text));
        assert_eq!([3, 3, 3, 4, 4, 4], [0, 1, 2, 3, 4, 5].map(|column: usize| columns[column].0.nulls));
    }

    #[test]
    fn white_space_between_tokens_goes_and_that_of_strings_stays() {
        let record = br#"{"t": { "a b" : [ "\"  c\\" , "\\\" d" ] } }"#;
        let columns = filled(&mut scanner(), &[record]);
        let (t, in_t) = &columns[2];
        assert_eq!(br#"{"a b":["\"  c\\","\\\" d"]}"#, at(in_t, t.text));
    }

    #[test]
    fn a_column_that_every_row_has_needs_no_bitmap() {
        let columns = filled(&mut scanner(), &[br#"{"i":1}"#, br#"{"i":2}"#]);
        assert_eq!((0, 0), (columns[0].0.nulls, columns[0].0.validity.1));
    }

    #[test]
    fn memory_of_another_size_is_not_written() {
        let mut scanner = scanner();
        scanner.scan(b"{}", &[2]).unwrap();
        let sizes: Vec<_> = scanner.places().unwrap().iter().map(|place| place.size).collect();
        for column in 0..sizes.len() {
            let mut outs: Vec<_> = sizes.iter().map(|size| vec![0; *size]).collect();
            outs[column].push(0);
            assert_eq!(None, scanner.fill(b"{}", outs.iter_mut().map(Vec::as_mut_slice)));
            outs.truncate(column);
            assert_eq!(None, scanner.fill(b"{}", outs.iter_mut().map(Vec::as_mut_slice)));
        }
        assert_eq!(None, scanner.scan(b"{}", &[1]));
        assert_eq!(None, scanner.scan(b"{}", &[3]));
    }

    /// Numbers that look random and are the same each time.
    fn any(seed: &mut u64) -> usize {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        usize::try_from(*seed >> 33).unwrap()
    }

    /// With the checks of a debug build for overflow, bounds and sizes.
    #[test]
    fn no_bytes_make_it_stop() {
        const PARTS: &[&[u8]] = &[
            b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"\\u", b"d83d", b"\xff", b" ", b"-9", b"1e9",
            b"null",
        ];
        let good = br#"{"i":-12,"b":true,"t":{"a":[1, "\u00e9\ud83d\ude00"]},"s":1.5,"e":null,"g":[0]}"#;
        let (mut seed, mut scanner, mut taken) = (88_172_645_463_325_252, scanner(), 0);
        for _ in 0..200_000 {
            let records: Vec<Vec<u8>> = (0..any(&mut seed) % 4)
                .map(|_| {
                    let mut record = good.to_vec();
                    for _ in 0..any(&mut seed) % 3 {
                        let begin = any(&mut seed) % record.len();
                        let end = (begin + any(&mut seed) % 4).min(record.len());
                        drop(record.splice(begin..end, PARTS[any(&mut seed) % PARTS.len()].iter().copied()));
                    }
                    record
                })
                .collect();
            let _columns = filled(&mut scanner, &records.iter().map(Vec::as_slice).collect::<Vec<_>>());
            assert_eq!(records.len(), scanner.batch.rows() + scanner.batch.declined.len());
            taken += scanner.batch.rows();
        }
        assert!(taken > 50_000, "only {taken} were taken");
    }
}
