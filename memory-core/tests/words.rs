//! What a word is (T1), and what the text of a query finds by it (T2): no engine takes part in that.

use memory_core::words;

/// The positions of the contents that have at least one word of a text.
fn found(contents: &[&str], text: &str) -> Vec<usize> {
    let wanted = words::distinct(text);
    let holds = |content: &&str| !wanted.is_disjoint(&words::distinct(content));
    (0..).zip(contents).filter(|(_, content)| holds(content)).map(|(place, _)| place).collect()
}

fn check<const N: usize>(contents: &[&str], table: [(&str, &[usize]); N]) {
    for (text, expected) in table {
        assert_eq!(found(contents, text), expected, "{text:?}");
    }
}

/// Everything but letters and digits separates, and a part of a word is no word.
#[test]
fn words_are_runs_of_letters_and_digits() {
    let contents = [
        "foo_bar-baz's", // 0
        "foobar",        // 1
        "Don't PANIC!",  // 2
        r"C:\new\table", // 3
        "v1.2.3-rc4",    // 4
        "x² ½ Ⅷ ٣",      // 5
        "a\u{300}b",     // 6
        "straße №42",    // 7
    ];
    check(&contents, [("foo", &[0]), ("bar", &[0]), ("baz", &[0]), ("foobar", &[1]), ("fo", &[]), ("foo bar", &[0])]);
    check(&contents, [("don", &[2]), ("t", &[2]), ("dont", &[]), ("new", &[3]), ("table", &[3]), ("ew", &[])]);
    check(&contents, [("v1", &[4]), ("rc4", &[4]), ("rc", &[]), ("x²", &[5]), ("x2", &[]), ("ⅷ", &[5])]);
    check(&contents, [("a\u{300}b", &[6]), ("b", &[]), ("straße", &[7]), ("42", &[7])]);
}

/// Raw text from a user is never a syntax error, whatever its punctuation, and its words still find.
#[test]
fn punctuation_is_no_word() {
    let contents = ["red apple", "blue pear"];
    let mut odd: Vec<String> = (' '..='~').filter(char::is_ascii_punctuation).map(String::from).collect();
    let more = ["\"\"", "''", "--", "/*", "*/", "\\\"", "((", "))", "{}", "@x:", "\0", "\n", "\u{201C}", "«", "～"];
    odd.extend(more.map(str::to_owned));
    for mark in &odd {
        for text in [
            format!("{mark}apple"),
            format!("apple{mark}"),
            format!("{mark}apple{mark}"),
            format!("apple {mark} zebra"),
            format!("{mark} {mark}apple"),
            format!("zebra{mark}apple"),
        ] {
            assert_eq!(found(&contents, &text), [0], "{text:?}");
        }
        assert_eq!(found(&contents, mark), [0; 0], "{mark:?} holds no word that is there");
    }
    let all: String = odd.concat();
    assert_eq!(found(&contents, &format!("{all} pear {all}")), [1]);
    for text in ["", " ", "---", "!?", "\u{1F600}", "\n\t", "\"\"", "*"] {
        assert_eq!(found(&["something", "", "--- !"], text), [0; 0], "{text:?}");
    }
}

/// Operators of some engine's query language are ordinary words here.
#[test]
fn query_operators_are_ordinary_words() {
    let contents = ["near the lake", "this and that", "apple", "not content or title"];
    check(&contents, [("NEAR", &[0]), ("NEAR(lake that)", &[0, 1]), ("AND", &[1]), ("apple AND lake", &[0, 1, 2])]);
    check(&contents, [("OR", &[3]), ("apple NOT that", &[1, 2, 3]), ("NOT", &[3]), ("-apple", &[2])]);
    check(&contents, [("lake -apple", &[0, 2]), ("\"lake near\"", &[0]), ("appl*", &[]), ("^apple", &[2])]);
    check(&contents, [("content:apple", &[2, 3]), ("apple | lake & !that", &[0, 1, 2]), ("%appl%", &[])]);
    check(&contents, [("apple~1", &[2])]);
}

/// Each ideograph and each kana is a word, also amid letters; other scripts have words as runs.
#[test]
fn ideographs_and_kana_are_words() {
    let contents = ["東京タワー", "京都", "abc漢字def", "안녕하세요 세계", "สวัสดี", "ひらがな"];
    check(&contents, [("東", &[0]), ("京", &[0, 1]), ("都東", &[0, 1]), ("タ", &[0]), ("abc", &[2]), ("漢", &[2])]);
    check(&contents, [("def字", &[2]), ("ab", &[]), ("안녕하세요", &[3]), ("안녕", &[]), ("สวัสดี", &[4]), ("が", &[5])]);
}

/// Words are lowercased in every script and keep their diacritics: `café` is not `cafe`, nor is its decomposed form.
#[test]
fn diacritics_are_kept_and_case_is_not() {
    let contents = ["Café", "cafe", "cafe\u{301}", "ÉCOLE ΣΟΦΊΑ", "Москва", "naïve", "ﬁn", "fin", "running"];
    check(&contents, [("café", &[0]), ("CAFÉ", &[0]), ("CAFE", &[1]), ("Cafe\u{301}", &[2]), ("école", &[3])]);
    check(&contents, [("ecole", &[]), ("σοφία", &[3]), ("МОСКВА", &[4]), ("naive", &[]), ("NAÏVE", &[5])]);
    check(&contents, [("ﬁn", &[6]), ("FIN", &[7]), ("run", &[]), ("runs", &[]), ("Running", &[8])]);
}

/// Of a word over 128 bytes the first 128 count, cut at a character: such words are found, and distinguished by these
/// bytes.
#[test]
fn of_a_long_word_the_first_bytes_count() {
    let (at_limit, accents) = ("x".repeat(128), "é".repeat(64));
    let contents = [at_limit.clone(), "x".repeat(5_000), "x".repeat(127), format!("{accents}tail")];
    let contents = contents.each_ref().map(String::as_str);
    assert_eq!(found(&contents, &at_limit), [0, 1]);
    assert_eq!(found(&contents, &format!("{at_limit}yz")), [0, 1]);
    assert_eq!(found(&contents, &"x".repeat(127)), [2]);
    assert_eq!(found(&contents, &format!("{accents}é")), [3]);
}
