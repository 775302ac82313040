//! What the first prompt is made of: standard input, files and messages.

use std::path::Path;

use fluzo_sim::Reply;
use serde_json::json;

use crate::support::*;

/// A PNG of one pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0, 0,
    0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

#[test]
fn input_files_and_first_message_are_joined_without_anything_between() {
    let simulator = simulator(scenario().step(Reply::text("1")).step(Reply::text("2")));
    let stage = Stage::with_fake(&simulator);
    let file = stage.write("project/n.txt", "file body\n");
    stage.write("project/empty.txt", "");
    let arguments = ["@n.txt", "@empty.txt", "first msg", "second msg"];
    stage
        .pi_with_input(&arguments, "  piped in \n")
        .is(0, "2\n", "");
    let first = format!(
        "piped in<file name=\"{}\">\nfile body\n\n</file>\nfirst msg",
        file.display()
    );
    assert_eq!(users(&simulator, 0), [text_block(&first)]);
    assert_eq!(
        users(&simulator, 1),
        [text_block(&first), text_block("second msg")]
    );
    approve(simulator);
}

#[test]
fn piped_input_alone_is_a_prompt() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    stage
        .pi_with_input(&[], "  from a pipe\n\n")
        .is(0, "ok\n", "");
    assert_eq!(users(&simulator, 0), [text_block("from a pipe")]);
    approve(simulator);
}

#[test]
fn messages_that_say_nothing_are_passed_over() {
    let simulator = simulator(scenario().step(Reply::text("1")).step(Reply::text("2")));
    let stage = Stage::with_fake(&simulator);
    let ran = stage.pi(&["-p", "one", "", "  ", "two"]);
    ran.is(0, "2\n", "");
    assert_eq!(users(&simulator, 1), [text_block("one"), text_block("two")]);
    let nothing = stage.pi(&["-p", "", " "]);
    assert_eq!(nothing.code(), 1);
    assert!(nothing.err().contains("no message was given"));
    approve(simulator);
}

#[test]
fn files_that_cannot_be_read() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    let missing = stage.project().join("no.txt");
    let text = format!("Error: File not found: {}\n", missing.display());
    stage.pi(&["-p", "@no.txt", "x"]).is(1, "", &text);
    std::fs::create_dir(stage.project().join("dir")).unwrap();
    let ran = stage.pi(&["-p", "@dir", "x"]);
    let text = format!(
        "Error: Could not read file {}: ",
        stage.project().join("dir").display()
    );
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
    assert!(ran.err().starts_with(&text), "{}", ran.err());
    stage.pi(&["--mode", "rpc", "@no.txt"]).is(
        1,
        "",
        "Error: @file arguments are not supported in RPC mode\n",
    );
    assert!(stage.sessions().is_empty());
}

#[test]
fn what_is_no_text_or_too_large_is_refused_by_name() {
    let stage = Stage::new().set("OPENAI_API_KEY", "k");
    let binary = stage.write("project/b.bin", b"\x7fELF\0rest");
    let large = stage.write("project/large.txt", vec![b'x'; (10 << 20) + 1]);
    let rows = [
        (
            "@b.bin",
            format!("Error: file `{}` is binary", binary.display()),
        ),
        (
            "@large.txt",
            format!(
                "Error: file `{}` is too large: 10485761 bytes",
                large.display()
            ),
        ),
        (
            "@/dev/zero",
            "Error: file `/dev/zero` is too large: more than 10485760 bytes".to_owned(),
        ),
    ];
    for (argument, text) in rows {
        let ran = stage.pi(&["-p", argument, "x"]);
        assert_eq!((ran.code(), ran.out().as_str()), (1, ""), "{argument}");
        assert!(ran.err().starts_with(&text), "{}", ran.err());
        assert!(ran.err().contains("\nhint: "), "{}", ran.err());
    }
    let mut command = stage.command_of(Path::new(env!("CARGO_BIN_EXE_fluzo")), &["pi", "-p"]);
    let input = std::fs::File::open(&large).unwrap();
    let ran = Ran(command.stdin(input).output().unwrap());
    assert_eq!((ran.code(), ran.out().as_str()), (1, ""));
    let text = "Error: standard input is too large: more than 10485760 bytes";
    assert!(ran.err().starts_with(text), "{}", ran.err());
    assert!(stage.sessions().is_empty());
}

#[test]
fn an_image_is_a_block_after_the_text() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let file = stage.write("project/i.png", PIXEL);
    stage
        .pi(&["--model", "eyes", "-p", "@i.png", "look"])
        .is(0, "ok\n", "");
    let content = &users(&simulator, 0)[0];
    let text = format!("<file name=\"{}\"></file>\nlook", file.display());
    assert_eq!(content[0], json!({"type": "text", "text": text}));
    let url = content[1]["image_url"]["url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,iVBOR"), "{url}");
    approve(simulator);
}

/// The simulator refuses an image for a model that takes none.
#[test]
fn an_image_is_left_out_for_a_model_that_takes_none() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    stage.write("project/i.png", PIXEL);
    stage
        .pi(&["--model", "m1", "-p", "@i.png", "look"])
        .is(0, "ok\n", "");
    approve(simulator);
}

/// A narrow no-break space on disk, a plain one in the argument; an address; a file that
/// begins like an image and is none.
#[test]
fn files_are_found_and_images_treated_as_read_does() {
    let simulator = simulator(scenario().step(Reply::text("ok")));
    let stage = Stage::with_fake(&simulator);
    let spaced = stage.write("project/at 9\u{202f}AM.txt", "S");
    let addressed = stage.write("project/a b.txt", "A");
    let broken = stage.write("project/broken.png", b"\x89PNG\r\n\x1a\n");
    stage.write("project/empty.txt", "");
    let address = format!("@file://{}/a%20b.txt", stage.project().display());
    let arguments = [
        "@at 9 AM.txt",
        &address,
        "@empty.txt",
        "@broken.png",
        "-p",
        "look",
    ];
    let ran = stage.pi(&[&["--model", "eyes"], &arguments[..]].concat());
    ran.is(0, "ok\n", "");
    let text = format!(
        "<file name=\"{}\">\nS\n</file>\n<file name=\"{}\">\nA\n</file>\n<file name=\"{}\">[Image omitted: could not be resized below the inline image size limit.]</file>\nlook",
        spaced.display(),
        addressed.display(),
        broken.display()
    );
    assert_eq!(users(&simulator, 0), [text_block(&text)]);
    approve(simulator);
}
