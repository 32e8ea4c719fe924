//! Fuzzes `parsers::config`.
#![no_main]

#[path = "../parsers.rs"]
#[allow(dead_code, reason = "each target runs one of them")]
mod parsers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parsers::config(data));
