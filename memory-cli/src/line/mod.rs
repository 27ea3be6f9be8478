//! The format of import and export: one memory, document, version or tombstone a line, in the JSON of the core.

mod field;
mod read;
mod record;
mod write;

pub(crate) use read::parse;
pub(crate) use record::{Parsed, Record};
pub(crate) use write::{add_vector, write_document, write_memory, write_tombstone, write_vector_model, write_version};

#[cfg(test)]
mod tests {
    use super::read::{NO_TOMBSTONE, NO_VECTOR_MODEL};
    use super::*;

    const NEW: &str = r#"{"spaceId":"a-b","trigger":{"price":1.50,"text":"caf\u00e9"},"createdAt":7}"#;

    fn key(line: &str) -> String {
        match parse(line.as_bytes()) {
            Ok(Parsed { record: Record::New(memory), .. }) => memory.idempotency_key.expect("a key").to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_key_is_that_of_the_content() {
        // A fixed value: another formula would duplicate what was imported before.
        assert_eq!(key(NEW), "import-22aef1e2b3a8b430538e91be63c7f120e181190bb61a090142b7cb6bf911d101");
        let spaced = NEW.replace(':', " : ").replace("{\"spaceId\"", "{\"metadata\":{}, \"spaceId\"");
        assert_eq!(key(&spaced), key(NEW));
        for (from, to) in [("a-b", "a-c"), ("1.50", "1.5"), ("\":7", "\":8"), ("{\"s", "{\"context\":null,\"s")] {
            assert_ne!(key(&NEW.replace(from, to)), key(NEW), "{to}");
        }
        assert_eq!(key(&NEW.replace("{\"s", "{\"idempotencyKey\":\"mine\",\"s")), "mine");
        assert_eq!(key(&NEW.replace("{\"s", "{\"expiresAt\":9,\"s")), key(NEW));
    }

    #[test]
    fn records_come_back_byte_for_byte() {
        let lines = [
            r#"{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":{"n":1.50,"e":"\u00e9"},"context":null,"createdAt":-1,"metadata":{},"status":"pending","revision":1}"#,
            r#"{"kind":"document","id":"x","collection":"notes","spaceId":"a","content":"b\n","metadata":{"a":1.0},"createdAt":0,"updatedAt":5,"revision":3}"#,
            r#"{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":1,"createdAt":-1,"metadata":{},"status":"pending","revision":1,"expiresAt":7}"#,
            r#"{"kind":"document","id":"x","collection":"notes","spaceId":"a","content":"b","metadata":{},"createdAt":0,"revision":1,"expiresAt":7}"#,
            r#"{"kind":"version","committedAt":5,"actor":null,"document":{"id":"x","collection":"notes","spaceId":"a","content":"b","metadata":{},"createdAt":0,"revision":1,"expiresAt":7}}"#,
            r#"{"kind":"version","committedAt":null,"actor":null,"memory":{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":{"n":1.50},"createdAt":-1,"metadata":{},"status":"pending","revision":1}}"#,
            r#"{"kind":"tombstone","id":"0190a0b0-0000-7000-8000-000000000001","erasedAt":5,"reason":"asked","actor":null,"keyHash":"000102030405060708090a0b0c0d0e0f","places":["ff0102030405060708090a0b0c0d0e0f"],"hashKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
            r#"{"kind":"tombstone","collection":"notes","id":"x","erasedAt":5,"reason":"asked","actor":"ana","keyHash":null,"places":[],"hashKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
            r#"{"kind":"vectorModel","name":"a \"b\"","width":3,"precision":"exact"}"#,
            r#"{"id":"0190a0b0-0000-7000-8000-000000000001","spaceId":"a","trigger":1,"createdAt":-1,"metadata":{},"status":"pending","revision":1,"vector":"ARQHAjwBgg=="}"#,
            r#"{"kind":"document","id":"x","collection":"notes","spaceId":"a","content":"b","metadata":{},"createdAt":0,"revision":1,"vector":"ARQHAjwBgg=="}"#,
            r#"{"kind":"version","committedAt":5,"actor":"run \"7\"","document":{"id":"x","collection":"notes","spaceId":"a","content":"b","metadata":{"a":1.0},"createdAt":0,"updatedAt":5,"revision":3}}"#,
        ];
        for line in lines {
            let mut out = Vec::new();
            let Parsed { record, vector } = parse(line.as_bytes()).expect("valid");
            match record {
                Record::Memory(memory) => write_memory(&mut out, &memory),
                Record::Document(document) => write_document(&mut out, &document),
                Record::Version(version) => write_version(&mut out, &version),
                Record::Tombstone(tombstone, key) => write_tombstone(&mut out, &tombstone, &key),
                Record::VectorModel(model) => write_vector_model(&mut out, &model),
                Record::New(_) => panic!("it has an id"),
            }
            .expect("memory can be written");
            if let Some(vector) = vector {
                add_vector(&mut out, &vector).expect("memory can be written");
            }
            assert_eq!(String::from_utf8(out).expect("UTF-8"), format!("{line}\n"));
        }
    }

    const VECTOR: &str = "vector: must be the base64 of a vector, or its numbers";

    #[test]
    fn refusals_name_the_field_and_never_the_value() {
        let cases = [
            ("secret", "not valid JSON at column 1"),
            ("\"secret\"", "not a JSON object"),
            ("[\"memory\",\"secret\"]", "not a JSON object"),
            (r#"{"spaceId":"a"}"#, "trigger is missing"),
            (r#"{"spaceId":["secret"],"trigger":1,"createdAt":1}"#, "spaceId: must be a string"),
            (
                r#"{"spaceId":"a","trigger":1,"createdAt":"secret"}"#,
                "createdAt: must be a whole number of milliseconds",
            ),
            (
                r#"{"spaceId":"a","trigger":1,"createdAt":1,"expiresAt":"secret"}"#,
                "expiresAt: must be a whole number of milliseconds",
            ),
            (r#"{"spaceId":"a","trigger":1,"createdAt":1,"tags":"secret"}"#, "unknown field `tags`"),
            (r#"{"spaceId":"a","trigger":1,"createdAt":1,"ta\ngs":"secret"}"#, "an unknown field"),
            (r#"{"spaceId":"a","trigger":1,"createdAt":1,"\u001b[2Jtags":"secret"}"#, "an unknown field"),
            (r#"{"spaceId":"a","spaceId":"secret"}"#, "duplicate field `spaceId`"),
            (r#"{"kind":"secret"}"#, "kind is memory, document, version, tombstone or vectorModel"),
            (r#"{"kind":"document","width":3}"#, NO_VECTOR_MODEL),
            (r#"{"kind":"vectorModel","name":"a","width":3,"precision":"secret"}"#, "precision: is compact or exact"),
            (r#"{"kind":"vectorModel","name":"a","width":3,"vector":"secret"}"#, VECTOR),
            (r#"{"kind":"vectorModel","name":"a","width":3,"id":"secret"}"#, "unknown field `id`"),
            (r#"{"spaceId":"a","trigger":1,"createdAt":1,"vector":"secret"}"#, VECTOR),
            (
                r#"{"spaceId":"a","trigger":1,"createdAt":1,"vector":[1]}"#,
                "vector belongs to a memory with an id, a document or a version",
            ),
            (
                r#"{"kind":"version","document":{"id":"x","vector":[1]}}"#,
                "vector belongs to the line, beside the record",
            ),
            (r#"{"kind":"tombstone","erasedAt":1,"reason":"a\nb"}"#, "reason: an erasure needs a reason, in one line"),
            (r#"{"kind":"document","places":["secret"]}"#, NO_TOMBSTONE),
            (r#"{"kind":"version","memory":["secret"]}"#, "not a JSON object"),
            (r#"{"kind":"version","actor":"secret"}"#, "a version has a memory or a document"),
            (r#"{"kind":"version","memory":{"spaceId":"a","trigger":1,"createdAt":1}}"#, "memory: id is missing"),
            (
                r#"{"spaceId":"a","trigger":1,"createdAt":1,"actor":"secret"}"#,
                "committedAt, actor, memory and document belong to a version, which says \"kind\":\"version\"",
            ),
            (
                r#"{"kind":"document","trigger":"secret"}"#,
                "a document has no trigger, context, status or idempotencyKey",
            ),
        ];
        for (line, reason) in cases {
            assert_eq!(parse(line.as_bytes()).expect_err(line), reason);
        }
    }
}
