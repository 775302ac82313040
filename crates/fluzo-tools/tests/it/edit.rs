//! `edit`: what is matched, what is written, what is said.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use fluzo_agent::ToolError;
use fluzo_llm::ToolOutput;
use fluzo_tools::registry::builtin;
use serde_json::{Value, json};

use crate::support::{call, env, text, text_of};

/// Old and new texts.
type Pairs<'a> = &'a [(&'a str, &'a str)];

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), content).unwrap();
        Self(dir)
    }

    async fn call(&self, args: Value) -> Result<ToolOutput, ToolError> {
        call(builtin("edit", &env(self.0.path())).unwrap(), args).await
    }

    async fn edit(&self, path: &str, edits: Pairs<'_>) -> Result<ToolOutput, ToolError> {
        let edits = edits
            .iter()
            .map(|(old, new)| json!({"oldText": old, "newText": new}));
        self.call(json!({"path": path, "edits": edits.collect::<Vec<_>>()}))
            .await
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap()
    }
}

/// Edits a file of `before` and compares its bytes with `after`.
async fn check(before: impl AsRef<[u8]>, edits: Pairs<'_>, after: impl AsRef<[u8]>) {
    let folder = Folder::with("f", before);
    let result = folder.edit("f", edits).await;
    let text = text_of(&result);
    assert_eq!(
        text,
        format!("Successfully replaced {} block(s) in f.", edits.len())
    );
    let (got, after) = (folder.bytes("f"), after.as_ref());
    assert_eq!(
        String::from_utf8_lossy(&got),
        String::from_utf8_lossy(after),
        "{edits:?}"
    );
    assert_eq!(got, after);
}

/// An edit that is refused with `error` and leaves the file alone.
async fn refused(before: impl AsRef<[u8]>, edits: Pairs<'_>, error: &str) {
    let folder = Folder::with("f", before.as_ref());
    let result = folder.edit("f", edits).await;
    assert_eq!(text_of(&result), format!("error: {error}"));
    assert_eq!(folder.bytes("f"), before.as_ref());
}

#[tokio::test]
async fn success_has_text_and_details() {
    let folder = Folder::with("e.txt", "alpha\nbeta\ngamma\n");
    let output = folder.edit("e.txt", &[("beta", "BETA")]).await.unwrap();
    assert_eq!(text(&output), "Successfully replaced 1 block(s) in e.txt.");
    let details = json!({
        "diff": " 1 alpha\n-2 beta\n+2 BETA\n 3 gamma",
        "patch": "--- e.txt\n+++ e.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n",
        "firstChangedLine": 2,
    });
    assert_eq!(output.details, Some(details));
}

#[tokio::test]
async fn line_ends_are_kept_line_by_line() {
    let rows: [(&str, Pairs<'_>, &str); 7] = [
        (
            "alpha\r\nbeta\r\ngamma\r\n",
            &[("alpha\nbeta", "ALPHA\nBETA")],
            "ALPHA\r\nBETA\r\ngamma\r\n",
        ),
        (
            "one\r\ntwo\nthree\r\n",
            &[("two", "TWO")],
            "one\r\nTWO\nthree\r\n",
        ),
        (
            "one\r\ntwo\nthree\r\n",
            &[("one\ntwo\nthree", "one\n2\nthree")],
            "one\r\n2\nthree\r\n",
        ),
        ("a\r\nb\r\n", &[("a", "a\na2")], "a\r\na2\r\nb\r\n"),
        ("a\nb\r\n", &[("b", "b\nc")], "a\nb\r\nc\r\n"),
        ("a\r\nb", &[("b", "b\r\nc")], "a\r\nb\r\nc"),
        ("a\rb\rc", &[("a\nb", "a\nB")], "a\rB\rc"),
    ];
    for (before, edits, after) in rows {
        check(before, edits, after).await;
    }
}

#[tokio::test]
async fn line_ends_inside_the_match_are_kept_one_by_one() {
    let rows: [(&str, Pairs<'_>, &str); 12] = [
        // A lone CR after the match is no style.
        ("a\nb\nc\rd\n", &[("a\nb\nc", "A\nB\nC")], "A\nB\nC\rd\n"),
        ("a\nb\rc\n", &[("b", "b\nB")], "a\nb\nB\rc\n"),
        ("b\rc\n", &[("b", "b\nB")], "b\nB\rc\n"),
        ("a\nb\rc\nd\n", &[("b\rc", "b\rC")], "a\nb\rC\nd\n"),
        ("a\nb\rc\nd\n", &[("b\rc", "b\nc")], "a\nb\nc\nd\n"),
        // The match has other line ends than the lines around it.
        (
            "one\r\ntwo\nthree\r\nfour\r\n",
            &[("two\nthree", "TWO\nTHREE")],
            "one\r\nTWO\nTHREE\r\nfour\r\n",
        ),
        (
            "x\nx\na\nb\r\nx\n",
            &[("a\nb", "A\nB")],
            "x\nx\nA\nB\r\nx\n",
        ),
        (
            "x\na\r\nb\nc\n",
            &[("a\nb\nc", "A\nB\nC")],
            "x\nA\r\nB\nC\n",
        ),
        ("a\r\nb\nc\n", &[("a\r\nb\nc", "A\nB\nC")], "A\r\nB\nC\n"),
        // Lines that come in between leave the ends of the others alone.
        (
            "a\r\nb\nc\n",
            &[("a\nb\nc", "a\nnew\nb\nc")],
            "a\r\nnew\nb\nc\n",
        ),
        ("a\r\nb\n", &[("a\nb\n", "")], ""),
        ("a\rb\rc", &[("a\nb", "A\nx\nB")], "A\rx\rB\rc"),
    ];
    for (before, edits, after) in rows {
        check(before, edits, after).await;
    }
}

#[tokio::test]
async fn one_edit_and_several_agree_on_line_ends() {
    let before = "a\r\nb\r\nc\r\nd\r\n";
    check(before, &[("a\nb", "A\nB")], "A\r\nB\r\nc\r\nd\r\n").await;
    check(
        before,
        &[("a\nb", "A\nB"), ("c\nd", "C\nD")],
        "A\r\nB\r\nC\r\nD\r\n",
    )
    .await;
}

#[tokio::test]
async fn bom_is_kept_and_not_matched() {
    let folder = Folder::with("crlf.txt", "\u{feff}a\r\nb\r\nc\r\n");
    let output = folder.edit("crlf.txt", &[("a\nb", "x\ny")]).await.unwrap();
    assert_eq!(
        output.details.unwrap()["diff"],
        "-1 a\n-2 b\n+1 x\n+2 y\n 3 c"
    );
    assert_eq!(
        folder.bytes("crlf.txt"),
        "\u{feff}x\r\ny\r\nc\r\n".as_bytes()
    );
    check(
        "\u{feff}hello\n",
        &[("hello", "hello2")],
        "\u{feff}hello2\n",
    )
    .await;
    check(
        "\u{feff}hello\n",
        &[("\u{feff}hello", "\u{feff}bye")],
        "\u{feff}bye\n",
    )
    .await;
}

#[tokio::test]
async fn look_alikes_match_and_only_matched_bytes_change() {
    check(
        "// \u{201c}quoted\u{201d} \u{2014} style   \nconst n = \"Ana\";\n",
        &[("const n = \u{201c}Ana\u{201d};", "const n = \"Bob\";")],
        "// \u{201c}quoted\u{201d} \u{2014} style   \nconst n = \"Bob\";\n",
    )
    .await;
    check(
        "title \u{2014} draft\n",
        &[("title - draft", "title - final")],
        "title \u{2014} final\n",
    )
    .await;
    check("版本：１２；\n", &[("版本:12", "版本:13")], "版本：13；\n").await;
    check(
        "a \u{2018}b\u{2019}  \nc  \nd",
        &[("a 'b'\nc", "a 'b'\nC")],
        "a \u{2018}b\u{2019}  \nC  \nd",
    )
    .await;
    check(
        "e\u{301}t\u{e9} s\n",
        &[("\u{e9}t\u{e9} s", "\u{e9}t\u{e9} z")],
        "e\u{301}t\u{e9} z\n",
    )
    .await;
    check("x\u{2026}y", &[("x...y", "x...z")], "x\u{2026}z").await;
    check(
        "  \u{201c}a\u{201d}\r\n  b\r\n",
        &[("\"a\"\n  b", "\"a\"\n  b\n  c")],
        "  \u{201c}a\u{201d}\r\n  b\r\n  c\r\n",
    )
    .await;
}

#[tokio::test]
async fn an_exact_match_takes_the_new_text_as_it_is() {
    check(
        "say \u{201c}a\u{201d}\n",
        &[("say \u{201c}a\u{201d}", "say \"a\"")],
        "say \"a\"\n",
    )
    .await;
    check("a - b", &[("a - b", "a \u{2014} b")], "a \u{2014} b").await;
}

#[tokio::test]
async fn invalid_utf8_outside_and_inside_the_match_survives() {
    check(
        b"x\xff\xc3\nkey=1\n\x80",
        &[("key=1", "key=2")],
        b"x\xff\xc3\nkey=2\n\x80",
    )
    .await;
    check(
        b"caf\xe9 one\n",
        &[("caf\u{fffd} one", "caf\u{fffd} two")],
        b"caf\xe9 two\n",
    )
    .await;
}

#[tokio::test]
async fn utf16_is_decoded_and_written_back() {
    let le = |text: &str| -> Vec<u8> {
        format!("\u{feff}{text}")
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect()
    };
    let be = |text: &str| -> Vec<u8> {
        format!("\u{feff}{text}")
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect()
    };
    check(
        le("a\r\nb \u{1f600}\r\n"),
        &[("a\nb", "A\nB")],
        le("A\r\nB \u{1f600}\r\n"),
    )
    .await;
    check(be("naïve"), &[("naïve", "naïf")], be("naïf")).await;
}

#[tokio::test]
async fn nul_bytes_are_refused_by_name() {
    let error =
        "Could not edit file: f. It has NUL bytes, so it is a binary file. Use bash to change it.";
    refused(b"a\0b", &[("a", "b")], error).await;
}

#[tokio::test]
async fn all_edits_are_found_in_the_original() {
    check("a b c d\n", &[("c", "C"), ("a", "A")], "A b C d\n").await;
    check("ab", &[("a", ""), ("b", "c")], "c").await;
    let error = "Could not find edits[1] in f. The oldText must match exactly including all whitespace and newlines.";
    refused("a\n", &[("a", "xyz"), ("xyz", "b")], error).await;
}

#[tokio::test]
async fn errors_are_the_references_with_hints_below() {
    refused("alpha\n", &[("nope", "b")], "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines.").await;
    refused("x\nx\nx\n", &[("x", "y")], "Found 3 occurrences of the text in f. The text must be unique. Please provide more context to make it unique.\nMatches at lines 1, 2, 3.").await;
    refused("q x\nx\n", &[("q", "Q"), ("x", "y")], "Found 2 occurrences of edits[1] in f. Each oldText must be unique. Please provide more context to make it unique.\nMatches at lines 1, 2.").await;
    refused("'a'\n\u{2018}a\u{2019}\n", &[("'a'", "b")], "Found 2 occurrences of the text in f. The text must be unique. Please provide more context to make it unique.\nMatches at lines 1, 2.").await;
    refused(
        "abc",
        &[("", "X")],
        "oldText must not be empty in f.\nTo write a whole file use write.",
    )
    .await;
    refused(
        "abc",
        &[("a", "b"), ("", "X")],
        "edits[1].oldText must not be empty in f.\nTo write a whole file use write.",
    )
    .await;
    refused(
        "abc",
        &[("ab", "x"), ("bc", "y")],
        "edits[0] and edits[1] overlap in f. Merge them into one edit or target disjoint regions.",
    )
    .await;
    refused(
        "abc",
        &[],
        "Edit tool input is invalid. edits must contain at least one replacement.",
    )
    .await;
    refused("loading: bool,\r\n", &[("loaded: bool,", "load_lock: Mutex,")], "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines.").await;
}

#[tokio::test]
async fn tabs_against_spaces_are_named() {
    check(
        "\t\tif x {\n",
        &[("\t\tif x {", "\t\tif y {")],
        "\t\tif y {\n",
    )
    .await;
    let start = "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines.";
    refused(
        "\t\tif x {\n",
        &[("        if x {", "y")],
        &format!("{start}\nLine 1 is the same but uses tabs where oldText has spaces."),
    )
    .await;
    refused(
        "a\n  if x {\n    b\n",
        &[("  if x {\n\tb", "y")],
        &format!("{start}\nLine 3 is the same but uses spaces where oldText has tabs."),
    )
    .await;
    refused(
        "  if x {\n",
        &[("    if x {", "y")],
        &format!("{start}\nLine 1 is the same but for its indentation."),
    )
    .await;
}

#[tokio::test]
async fn a_change_of_nothing_succeeds_as_unchanged() {
    let rows: [(&str, Pairs<'_>); 3] = [
        ("hello\n", &[("hello", "hello")]),
        ("say goodbye now\n", &[("hello", "goodbye")]),
        ("one two\n", &[("one", "one"), ("deux", "two")]),
    ];
    for (content, edits) in rows {
        let folder = Folder::with("f", content);
        let output = folder.edit("f", edits).await.unwrap();
        assert_eq!(
            text(&output),
            "No changes made to f: it is already in that state."
        );
        assert_eq!(output.details.unwrap()["changed"], json!(false));
        assert_eq!(folder.bytes("f"), content.as_bytes());
    }
    let error = "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines.";
    refused("goodbyes\n", &[("hello", "goodbye")], error).await;
    refused("bye\nbye\n", &[("hello", "bye")], error).await;
}

#[tokio::test]
async fn argument_forms() {
    let edit = json!({"oldText": "a", "newText": "b"});
    let rows = [
        json!({"path": "f", "oldText": "a", "newText": "b"}),
        json!({"path": "f", "edits": edit}),
        json!({"path": "f", "edits": [edit]}),
        json!({"path": "f", "edits": "[{\"oldText\":\"a\",\"newText\":\"b\"}]"}),
        json!({"path": "f", "edits": "{\"oldText\":\"a\",\"newText\":\"b\"}"}),
        json!({"path": "f", "edits": [], "oldText": "a", "newText": "b"}),
        json!({"file_path": "f", "target_content": "a", "replacement_content": "b"}),
        json!({"file_path": "f", "path": "f", "edits": [edit]}),
    ];
    for args in rows {
        let folder = Folder::with("f", "a\n");
        let result = folder.call(args.clone()).await;
        assert_eq!(
            text_of(&result),
            "Successfully replaced 1 block(s) in f.",
            "{args}"
        );
        assert_eq!(folder.bytes("f"), b"b\n", "{args}");
    }
}

#[tokio::test]
async fn raw_control_characters_in_a_string_of_edits_are_repaired() {
    let folder = Folder::with("f", "a");
    let edits = "[{\"oldText\":\"a\",\"newText\":\"x\ny\tz\"}]";
    folder
        .call(json!({"path": "f", "edits": edits}))
        .await
        .unwrap();
    assert_eq!(folder.bytes("f"), b"x\ny\tz");
}

#[tokio::test]
async fn unusable_arguments_are_refused() {
    let folder = Folder::with("f", "a");
    let rows = [
        (
            json!({"path": "f", "edits": "[{bad"}),
            "  - edits: must be an array; this string is not valid JSON: key must be a string at line 1 column 3",
        ),
        (
            json!({"path": "f", "file_path": "g", "edits": []}),
            "  - path: must not differ from file_path",
        ),
        (
            json!({"path": "f", "edits": [{"oldText": "a", "newText": "b", "all": true}]}),
            "must not have additional properties",
        ),
        (
            json!({"path": "f"}),
            "  - edits: must have required properties edits",
        ),
    ];
    for (args, problem) in rows {
        let error = text_of(&folder.call(args).await);
        assert!(
            error.starts_with("error: Validation failed for tool \"edit\":\n"),
            "{error}"
        );
        assert!(error.contains(problem), "{error}");
        assert!(error.contains("\n\nReceived arguments:\n{"), "{error}");
    }
    assert_eq!(folder.bytes("f"), b"a");
}

#[tokio::test]
async fn files_that_cannot_be_edited() {
    let folder = Folder::with("f", "a");
    let missing = folder.edit("missing.txt", &[("a", "b")]).await;
    assert_eq!(
        text_of(&missing),
        "error: Could not edit file: missing.txt. Error code: ENOENT."
    );
    let directory = folder.edit(".", &[("a", "b")]).await;
    assert_eq!(
        text_of(&directory),
        "error: EISDIR: illegal operation on a directory, read"
    );
}

#[tokio::test]
async fn mode_is_kept() {
    let folder = Folder::with("f", "a");
    let path = folder.0.path().join("f");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    folder.edit("f", &[("a", "b")]).await.unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o750
    );
}

#[tokio::test]
async fn concurrent_edits_of_one_file_are_both_applied() {
    let folder = Folder::with("f", "a\nb\nc\nd\n");
    let pairs = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")];
    let tool = builtin("edit", &env(folder.0.path())).unwrap();
    let calls = pairs.map(|(old, new)| {
        call(
            tool.clone(),
            json!({"path": "f", "oldText": old, "newText": new}),
        )
    });
    let results = futures_util::future::join_all(calls).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(folder.bytes("f"), b"A\nB\nC\nD\n");
}

#[tokio::test]
async fn a_large_file_is_edited_in_place() {
    let line = "the quick brown fox \u{201c}jumps\u{201d} over it\r\n";
    let middle = "unique line here\r\n";
    let before = format!("{}{middle}{}", line.repeat(12_000), line.repeat(12_000));
    let after = before.replace("unique", "single");
    check(before, &[("unique line here", "single line here")], after).await;
}
