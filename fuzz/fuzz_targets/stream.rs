//! The target `stream` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_memory_fuzz::stream(data));
