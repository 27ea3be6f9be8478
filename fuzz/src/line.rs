use memory_cli::fuzzing::rewrite;

/// A line of an import: exporting it and reading that back gives the same, and a refusal is one line.
pub fn line(data: &[u8]) {
    match rewrite(data) {
        Ok(written) => {
            let line = written.strip_suffix(b"\n").expect("a line");
            assert!(!line.contains(&b'\n'), "more than one line");
            let again = rewrite(line).unwrap_or_else(|reason| panic!("{reason}: {}", line.escape_ascii()));
            assert_eq!(again.escape_ascii().to_string(), written.escape_ascii().to_string());
        }
        Err(reason) => assert!(!reason.is_empty() && reason.len() < 1_000 && !reason.contains('\n'), "{reason}"),
    }
}
