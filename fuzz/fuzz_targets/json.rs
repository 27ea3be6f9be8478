//! The target `json` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent_memory_fuzz::json(data));
