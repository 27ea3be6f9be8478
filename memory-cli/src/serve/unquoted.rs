//! Removes quoted input from the error messages of serde.

/// Returns the message without names and values of the input, any of which may be a secret.
pub(crate) fn unquoted(message: &str) -> String {
    // The expectation comes last and holds only names of this program. The text before it may quote anything.
    let expected = message.rsplit_once(", expected ").map(|(_, expected)| expected);
    match (message.split(' ').next(), expected) {
        (Some("invalid"), Some(expected)) => format!("expected {expected}"),
        (Some("unknown"), Some(expected)) => format!("an unknown name, expected {expected}"),
        (Some("unknown"), None) => "an unknown name".to_owned(),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_input_is_left() {
        for (message, left) in [
            (r#"invalid type: string "xyzzy", expected i64"#, "expected i64"),
            (r#"invalid value: string "xyzzy, expected xyzzy", expected a time"#, "expected a time"),
            ("unknown field `xyzzy, expected xyzzy`, expected `a` or `b`", "an unknown name, expected `a` or `b`"),
            ("unknown variant `xyzzy`, expected one of `a`, `b`", "an unknown name, expected one of `a`, `b`"),
            ("unknown field `xyzzy`, there are no fields", "an unknown name"),
            ("missing field `spaceId`", "missing field `spaceId`"),
            ("a number must be whole", "a number must be whole"),
        ] {
            assert_eq!(unquoted(message), left);
        }
    }
}
