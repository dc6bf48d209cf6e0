//! JSON records to the buffers of Arrow columns, for records that have the members their columns are made for.
//!
//! It takes a record only where every byte of it is as RFC 8259 has it, and it knows exactly what each member
//! becomes. All others are declined, and cost little more than finding out: the decoder reads them with care.
//!
//! Two passes over a batch. The first checks the records and notes where each member stands, so that the size
//! of every column is known; the second writes the columns into memory of the caller.

#[cfg(target_endian = "big")]
compile_error!("values are written as Arrow has them on little-endian machines");
#[cfg(panic = "abort")]
compile_error!("a fault in here must be caught at the border, not end the process");

mod batch;
mod fill;
mod json;
mod mode;
mod scanner;

pub mod ffi;
