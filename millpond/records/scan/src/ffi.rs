//! What a C caller sees. The only place where memory is taken on trust.
//!
//! A scanner is used by one thread at a time. A call that meets a fault of this crate comes back with
//! `FAULT`; the scanner is good for the next batch, and `millpond_scan_fault` has the words.
//!
//! Pointers of a caller are held no longer than the call.
#![allow(unsafe_code, reason = "the border: pointers of a C caller become slices here")]

use std::cell::RefCell;
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe};
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::Once;

use crate::batch::OddMember;
use crate::fill::Place;
use crate::mode::Mode;
use crate::scanner::Scanner;

/// Goes up with every change of what is declared here; a caller made for another version does not call it.
const ABI: u32 = 2;

const DONE: i32 = 0;
/// The batch is not for this scanner: too large, or not what the arguments say.
const REFUSED: i32 = 1;
const FAULT: i32 = 2;

thread_local! {
    static LAST_FAULT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What the first pass found.
#[repr(C)]
#[derive(Default)]
pub struct Summary {
    /// Records taken, each of which is a row.
    pub rows: u64,
    /// Records declined.
    pub declined: u64,
    /// Members of another type than their column, in records taken.
    pub odd: u64,
}

/// Where the buffers of a column stand in the memory of this column: begin and size of each, in bytes.
#[repr(C)]
#[derive(Default)]
pub struct Buffers {
    pub validity: [u64; 2],
    pub values: [u64; 2],
    pub text: [u64; 2],
    /// Bytes of memory that `millpond_scan_fill` needs for the column.
    pub size: u64,
    /// Rows without a value.
    pub nulls: u64,
}

impl From<&Place> for Buffers {
    fn from(place: &Place) -> Self {
        let pair = |(begin, size): (usize, usize)| [begin as u64, size as u64];
        Self {
            validity: pair(place.validity),
            values: pair(place.values),
            text: pair(place.text),
            size: place.size as u64,
            nulls: place.nulls as u64,
        }
    }
}

/// The version of this interface.
#[must_use]
#[no_mangle]
pub extern "C" fn millpond_scan_abi() -> u32 {
    ABI
}

/// A scanner of `count` keys; null where a mode is unknown, or this crate met a fault.
///
/// # Safety
/// `names` has the keys one after the other, and `lengths` and `modes` an entry for each.
#[no_mangle]
pub unsafe extern "C" fn millpond_scan_new(
    names: *const u8,
    lengths: *const u64,
    modes: *const u8,
    count: u64,
) -> *mut Scanner {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // The usual one writes to stderr, where the service writes one JSON object a line. A library like this
        // has a hook of its own, so that no other one's panics are meant.
        let usual = take_hook();
        set_hook(Box::new(move |fault| {
            LAST_FAULT.set(fault.to_string());
            if cfg!(test) {
                usual(fault);
            }
        }));
    });
    let scanner = catch_unwind(|| {
        let count = usize::try_from(count).ok()?;
        // SAFETY: there is an entry for each of `count` keys, as asked for above.
        let (lengths, modes) = unsafe { (slice(lengths, count), slice(modes, count)) };
        let total = usize::try_from(lengths.iter().sum::<u64>()).ok()?;
        // SAFETY: the keys stand there one after the other, and are as long as `lengths` says.
        let mut names = unsafe { slice(names, total) };
        let mut columns = Vec::with_capacity(count);
        for (length, mode) in lengths.iter().zip(modes) {
            let (name, rest) = names.split_at(usize::try_from(*length).ok()?);
            names = rest;
            columns.push((name.into(), Mode::of(*mode)?));
        }
        Some(Box::new(Scanner::new(columns)))
    });
    scanner.ok().flatten().map_or(std::ptr::null_mut(), Box::into_raw)
}

/// Give back a scanner.
///
/// # Safety
/// It came from `millpond_scan_new`, and is not used again.
#[no_mangle]
pub unsafe extern "C" fn millpond_scan_free(scanner: *mut Scanner) {
    if !scanner.is_null() {
        // SAFETY: `millpond_scan_new` made it by `Box::into_raw`, and nobody else has it.
        drop(unsafe { Box::from_raw(scanner) });
    }
}

/// The first pass over `count` records, which stand one after the other in `data`.
///
/// # Safety
/// `data` has `size` bytes, `lengths` an entry for each record, and there is a `summary` to be written, and
/// one of `buffers` for each column.
#[no_mangle]
pub unsafe extern "C" fn millpond_scan_read(
    scanner: *mut Scanner,
    data: *const u8,
    size: u64,
    lengths: *const u64,
    count: u64,
    summary: *mut Summary,
    buffers: *mut Buffers,
) -> i32 {
    guarded(|| {
        // SAFETY: null or a scanner, which one thread at a time uses.
        let scanner = unsafe { scanner.as_mut() }?;
        // SAFETY: `data` has `size` bytes, as asked for above.
        let data = unsafe { slice(data, usize::try_from(size).ok()?) };
        // SAFETY: there is an entry for each of `count` records.
        let lengths = unsafe { slice(lengths, usize::try_from(count).ok()?) };
        scanner.scan(data, lengths)?;
        let places = scanner.places()?;
        let batch = &scanner.batch;
        // SAFETY: null or memory of the caller, of this type and lent to this call alone.
        let summary = unsafe { summary.as_mut() }?;
        *summary = Summary {
            rows: batch.rows() as u64,
            declined: batch.declined.len() as u64,
            odd: batch.odd.len() as u64,
        };
        // SAFETY: there is an entry for each column, and each column has a place.
        let buffers = unsafe { slice_mut(buffers, places.len()) };
        for (buffers, place) in buffers.iter_mut().zip(&places) {
            *buffers = place.into();
        }
        Some(())
    })
}

/// The second pass: columns, the numbers of the records declined, and the odd members.
///
/// # Safety
/// `data` is what was read last. For each column one of `outs` has as many bytes as `buffers` said, apart from
/// those of the others; `declined` and `odd` have as many entries as the summary said.
#[no_mangle]
pub unsafe extern "C" fn millpond_scan_fill(
    scanner: *const Scanner,
    data: *const u8,
    size: u64,
    outs: *const *mut u8,
    declined: *mut u32,
    odd: *mut OddMember,
) -> i32 {
    guarded(|| {
        // SAFETY: null or a scanner, which one thread at a time uses.
        let scanner = unsafe { scanner.as_ref() }?;
        let batch = &scanner.batch;
        // SAFETY: `data` has `size` bytes, as asked for above.
        let data = unsafe { slice(data, usize::try_from(size).ok()?) };
        let places = scanner.places()?;
        // SAFETY: there is an entry for each column, and each column has a place.
        let outs = unsafe { slice(outs, places.len()) };
        let outs = outs.iter().zip(&places).map(|(out, place)| {
            // SAFETY: it has this size, is lent to this call alone, and each byte is written before it is read.
            unsafe { slice_mut(*out, place.size) }
        });
        scanner.fill(data, outs)?;
        // SAFETY: the caller has room for as many as the summary of this batch said.
        unsafe { slice_mut(declined, batch.declined.len()) }.copy_from_slice(&batch.declined);
        // SAFETY: the same.
        unsafe { slice_mut(odd, batch.odd.len()) }.copy_from_slice(&batch.odd);
        Some(())
    })
}

/// What went wrong in the last call of this thread that came back with `FAULT`; how many bytes were written.
///
/// # Safety
/// `out` has `room` bytes.
#[no_mangle]
pub unsafe extern "C" fn millpond_scan_fault(out: *mut u8, room: u64) -> u64 {
    // SAFETY: `out` has `room` bytes, as asked for above.
    let out = unsafe { slice_mut(out, usize::try_from(room).unwrap_or(0)) };
    let words = LAST_FAULT.take();
    let length = words.len().min(out.len());
    out[..length].copy_from_slice(&words.as_bytes()[..length]);
    length as u64
}

/// No panic may pass the border. What one leaves behind is sound: each batch begins by forgetting the last.
fn guarded(call: impl FnOnce() -> Option<()>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Some(())) => DONE,
        Ok(None) => REFUSED,
        Err(_) => FAULT,
    }
}

/// # Safety
/// As `from_raw_parts`, but where nothing is asked for the pointer may be null.
unsafe fn slice<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: `count` is not zero, and for all others the caller promises what this asks for.
    unsafe { from_raw_parts(pointer, count) }
}

/// # Safety
/// As `from_raw_parts_mut`, but where nothing is asked for the pointer may be null.
unsafe fn slice_mut<'a, T>(pointer: *mut T, count: usize) -> &'a mut [T] {
    if count == 0 {
        return &mut [];
    }
    // SAFETY: `count` is not zero, and for all others the caller promises what this asks for.
    unsafe { from_raw_parts_mut(pointer, count) }
}

#[cfg(test)]
#[allow(clippy::undocumented_unsafe_blocks, reason = "what is lent stands in the same line")]
mod tests {
    use super::*;

    #[test]
    fn a_fault_comes_back_as_words() {
        let scanner = unsafe { millpond_scan_new(b"a".as_ptr(), [1].as_ptr(), [0].as_ptr(), 1) };
        assert_eq!(FAULT, guarded(|| panic!("the reason")));
        let mut out = [0; 500];
        let length = unsafe { millpond_scan_fault(out.as_mut_ptr(), 500) };
        let words = std::str::from_utf8(&out[..usize::try_from(length).unwrap()]).unwrap();
        assert!(words.contains("the reason") && words.contains("ffi.rs"), "{words}");
        assert_eq!(0, unsafe { millpond_scan_fault(out.as_mut_ptr(), 500) });
        unsafe { millpond_scan_free(scanner) };
    }

    #[test]
    fn a_mode_that_is_unknown_makes_no_scanner() {
        assert!(unsafe { millpond_scan_new(b"a".as_ptr(), [1].as_ptr(), [9].as_ptr(), 1) }.is_null());
    }
}
