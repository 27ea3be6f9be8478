//! Recalls with a message's text as the question.

use memory_core::{ErrorKind, Kind, Query, Recall, RecallOptions, Result};

/// Makes a recall with any text as the question. A text over the limits of a recall is halved until it fits.
pub(crate) fn about<K: Kind + Clone>(mut text: &str, query: &Query<K>, options: &RecallOptions) -> Result<Recall<K>> {
    loop {
        match Recall::with(text, query.clone(), options.clone()) {
            Err(error) if error.kind() == ErrorKind::TooLarge && !text.is_empty() => {
                text = &text[..text.floor_char_boundary(text.len() / 2)];
            }
            recall => return recall,
        }
    }
}

#[cfg(test)]
mod tests {
    use memory_core::{MAX_TEXT, MemoryQuery};

    use super::*;

    #[test]
    fn any_text_is_a_question() {
        let query = MemoryQuery::builder().all().build().expect("valid");
        let many: String = (0..1_000).map(|number| format!("w{number} ")).collect();
        let long = "ä".repeat(MAX_TEXT);
        for (text, asked) in [("", ""), ("?!", "?!"), ("tea, please", "tea, please"), (&many, "w0 w1 "), (&long, "ää")]
        {
            let recall = about(text, &query, &RecallOptions::default()).expect("a recall");
            assert!(text.starts_with(recall.question()) && recall.question().starts_with(asked), "{asked}");
        }
    }
}
