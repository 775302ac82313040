use std::path::Path;

use fluzo_exec::LocalFileSystem;

use super::*;

fn output(max_lines: usize, max_bytes: usize) -> Output {
    let limits = TextLimits {
        max_lines,
        max_bytes,
    };
    let fs: Arc<dyn FileSystem> = Arc::new(LocalFileSystem);
    Output::new(limits, &SpillPolicy::Drop, &fs)
}

fn filled(max_lines: usize, max_bytes: usize, chunks: &[&[u8]]) -> Snapshot {
    let mut output = output(max_lines, max_bytes);
    chunks.iter().for_each(|chunk| output.push(chunk));
    output.finish();
    output.snapshot()
}

#[test]
fn counts_do_not_depend_on_where_chunks_end() {
    let text = "one\ntwo\n\nfour é\nlast".as_bytes();
    for size in 1..=text.len() {
        let chunks: Vec<&[u8]> = text.chunks(size).collect();
        let got = filled(100, 1000, &chunks);
        let t = &got.truncation;
        assert_eq!(t.content.as_bytes(), text, "chunks of {size}");
        assert_eq!((t.total_lines, t.total_bytes), (5, text.len()));
        assert_eq!(got.last_line, 4, "chunks of {size}");
    }
}

#[test]
fn a_final_newline_starts_no_line() {
    for (chunks, lines, last) in [
        (&[&b"a\nbc\n"[..]][..], 2, 2),
        (&[b"a\nbc", b"\n"], 2, 2),
        (&[b"a\n", b"\n"], 2, 0),
        (&[b"abc"], 1, 3),
        (&[], 0, 0),
    ] {
        let got = filled(100, 1000, chunks);
        assert_eq!(
            (got.truncation.total_lines, got.last_line),
            (lines, last),
            "{chunks:?}"
        );
    }
}

#[test]
fn invalid_bytes_are_replaced_and_split_characters_are_not() {
    for (chunks, text) in [
        (&[&b"\xf0\x9f"[..], b"\x98\x80"][..], "\u{1f600}"),
        (&[b"a\xff", b"b"], "a\u{fffd}b"),
        (&[b"a\xc3"], "a\u{fffd}"),
        (&[b"\xef\xbb\xbfx"], "\u{feff}x"),
        (&[b"\x1b[31mred\r\n\0\x07"], "\u{1b}[31mred\r\n\0\u{7}"),
    ] {
        assert_eq!(filled(9, 99, chunks).truncation.content, text, "{chunks:?}");
    }
}

#[test]
fn only_the_tail_is_kept_of_a_flood() {
    let mut output = output(2000, 1000);
    let mut largest = 0;
    for n in 0..20_000 {
        output.push(format!("line {n}\n").as_bytes());
        largest = largest.max(output.tail.capacity());
    }
    output.finish();
    assert!(largest < 20_000, "{largest}");
    let got = output.snapshot();
    let t = got.truncation;
    assert_eq!(t.total_lines, 20_000);
    assert!(t.content.ends_with("line 19999") && t.content.len() <= 1000);
    assert_eq!(got.saved, Saved::Nowhere);
}

#[test]
fn one_endless_line_keeps_its_end_and_its_size() {
    let chunk = [b'x'; 700];
    let got = filled(9, 1000, &vec![&chunk[..]; 100]);
    assert!(got.truncation.last_line_partial);
    assert_eq!(got.truncation.output_bytes, 1000);
    assert_eq!((got.last_line, got.truncation.total_lines), (70_000, 1));
}

/// Output with a limit of four bytes that goes to a file of at most `max_bytes`.
fn spilled(folder: PathBuf, max_bytes: u64, chunks: &[&[u8]]) -> Saved {
    let limits = TextLimits {
        max_lines: 9,
        max_bytes: 4,
    };
    let fs: Arc<dyn FileSystem> = Arc::new(LocalFileSystem);
    let mut output = Output::new(limits, &SpillPolicy::File { folder, max_bytes }, &fs);
    chunks.iter().for_each(|chunk| output.push(chunk));
    output.finish();
    output.snapshot().saved
}

fn content(path: &Path) -> Vec<u8> {
    LocalFileSystem.read(path).unwrap()
}

#[test]
fn the_file_holds_the_raw_bytes_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = || folder.path().to_path_buf();
    assert_eq!(spilled(path(), 99, &[b"ab", b"cd"]), Saved::Nowhere);
    assert!(LocalFileSystem.read_dir(folder.path()).unwrap().is_empty());
    match spilled(path(), 99, &[b"ab", b"\xff", b"cd", b"e"]) {
        Saved::Whole(file) => assert_eq!(content(&file), b"ab\xffcde"),
        other => panic!("{other:?}"),
    }
    // Three bytes that never become a character are more in the text than they were raw.
    match spilled(path(), 99, &[b"ab\xff"]) {
        Saved::Whole(file) => assert_eq!(content(&file), b"ab\xff"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_file_stops_at_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    match spilled(folder.path().to_path_buf(), 7, &[b"abcde", b"fghi", b"jk"]) {
        Saved::First(file, 7) => assert_eq!(content(&file), b"abcdefg"),
        other => panic!("{other:?}"),
    }
    match spilled(folder.path().to_path_buf(), 9, &[b"abcde", b"fghi"]) {
        Saved::Whole(file) => assert_eq!(content(&file), b"abcdefghi"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_cannot_be_made_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    assert_eq!(
        spilled(missing, 99, &[b"abcdef"]),
        Saved::Failed("no such file or directory".into())
    );
}
