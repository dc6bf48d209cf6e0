//! What is known of a batch after the first pass.

/// Entries that room is kept for whatever the last batch was: small ones come between others all the time.
const KEPT: usize = 1 << 16;

/// Where a member stands in the bytes of a batch, and what it holds.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub column: u32,
    pub start: u32,
    pub end: u32,
    pub value: Value,
}

/// What a member holds, in the form its column is filled from.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Bool(bool),
    Int64(i64),
    Float64(f64),
    /// The bytes as they stand.
    Text,
    /// A string with escapes, and how many bytes it has without.
    Escaped(u32),
    /// An object or array with white space between its tokens, and how many bytes it has without.
    Spaced(u32),
    /// Of a key that nobody keeps; only that it came.
    Ignored,
}

impl Member {
    /// How many bytes it has in a column of text.
    pub const fn length(&self) -> usize {
        match self.value {
            Value::Text => (self.end - self.start) as usize,
            Value::Escaped(length) | Value::Spaced(length) => length as usize,
            _ => 0,
        }
    }
}

/// A member of another type than its column: where its JSON text stands, and in which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct OddMember {
    /// Number of the record in the batch.
    pub record: u32,
    /// Number of the row, which counts the records taken.
    pub row: u32,
    pub column: u32,
    pub start: u32,
    pub end: u32,
}

/// Members of the records taken, row after row, and the numbers of the records declined.
#[derive(Debug, Default)]
pub struct Batch {
    pub members: Vec<Member>,
    /// For each row, where its members end.
    pub ends: Vec<usize>,
    pub declined: Vec<u32>,
    pub odd: Vec<OddMember>,
    /// By column: how many rows have a value, and how many bytes these are as text.
    pub counts: Vec<Count>,
}

/// How much a column holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub values: usize,
    pub text: usize,
}

impl Batch {
    /// Forget all, but keep the memory for the next batch of about this size.
    pub fn clear(&mut self, columns: usize) {
        forget(&mut self.members);
        forget(&mut self.ends);
        forget(&mut self.declined);
        forget(&mut self.odd);
        self.counts.clear();
        self.counts.resize(columns, Count::default());
    }

    /// Records taken.
    pub fn rows(&self) -> usize {
        self.ends.len()
    }
}

/// Empty a list; one batch that was large does not take its memory for good.
fn forget<T>(list: &mut Vec<T>) {
    let used = list.len();
    list.clear();
    list.shrink_to(KEPT.max(2 * used));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_keeps_room_for_one_like_the_last_and_no_more() {
        let mut batch = Batch::default();
        for (declined, kept) in [(10 * KEPT, 10 * KEPT), (8 * KEPT, 10 * KEPT), (0, KEPT), (1, KEPT)] {
            batch.declined.resize(declined, 0);
            batch.clear(0);
            assert!((declined..=kept).contains(&batch.declined.capacity()), "after {declined}");
        }
    }
}
