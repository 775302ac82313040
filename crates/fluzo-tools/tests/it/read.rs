//! `read`: text by lines, images, folders.

use std::fs;
use std::io::Cursor;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::Engine as _;
use fluzo_agent::{ToolContext, ToolError, UpdateSink};
use fluzo_llm::{AbortSignal, Content, ToolOutput};
use fluzo_tools::registry::builtin;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use crate::support::{alone, call, call_in, env, peak_memory, plain_env, text, text_of};

fn with(name: &str, content: impl AsRef<[u8]>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(name), content).unwrap();
    dir
}

async fn read(dir: &tempfile::TempDir, args: Value) -> Result<ToolOutput, ToolError> {
    call(builtin("read", &env(dir.path())).unwrap(), args).await
}

/// Reads a file of `content` with `args` beside its path.
async fn check(content: impl AsRef<[u8]>, mut args: Value, expected: &str) {
    let dir = with("f", content);
    args["path"] = json!("f");
    assert_eq!(text_of(&read(&dir, args.clone()).await), expected, "{args}");
}

#[tokio::test]
async fn text_and_line_windows() {
    let five = "one\ntwo\nthree\nfour\nfive\n";
    check(five, json!({}), five).await;
    check("no end", json!({}), "no end").await;
    check("", json!({}), "").await;
    check("a\r\nb\r\n", json!({}), "a\r\nb\r\n").await;
    check("\t\tif x {\n", json!({}), "\t\tif x {\n").await;
    check(
        five,
        json!({"limit": 2}),
        "one\ntwo\n\n[3 more lines in file. Use offset=3 to continue.]",
    )
    .await;
    check(five, json!({"offset": 4}), "four\nfive\n").await;
    check(
        five,
        json!({"offset": 2, "limit": 2}),
        "two\nthree\n\n[2 more lines in file. Use offset=4 to continue.]",
    )
    .await;
    check(
        five,
        json!({"offset": 0, "limit": 1}),
        "one\n\n[4 more lines in file. Use offset=2 to continue.]",
    )
    .await;
    check(
        five,
        json!({"offset": -3, "limit": 1}),
        "one\n\n[4 more lines in file. Use offset=2 to continue.]",
    )
    .await;
    check(
        five,
        json!({"offset": "2", "limit": "99"}),
        "two\nthree\nfour\nfive\n",
    )
    .await;
    check(
        five,
        json!({"offset": 6}),
        "error: Offset 6 is beyond end of file (5 lines total)",
    )
    .await;
    check(
        "",
        json!({"offset": 2}),
        "error: Offset 2 is beyond end of file (0 lines total)",
    )
    .await;
}

#[tokio::test]
async fn a_final_newline_is_no_line() {
    check("l1\nl2\n", json!({"limit": 2}), "l1\nl2\n").await;
    check(
        "l1\nl2\n",
        json!({"offset": 3}),
        "error: Offset 3 is beyond end of file (2 lines total)",
    )
    .await;
}

#[tokio::test]
async fn an_offset_deep_in_a_file() {
    let lines: String = (1..=10_000).map(|n| format!("line {n}\n")).collect();
    let expected = "line 9990\nline 9991\nline 9992\nline 9993\nline 9994\n\n[6 more lines in file. Use offset=9995 to continue.]";
    check(lines, json!({"offset": 9990, "limit": 5}), expected).await;
}

#[tokio::test]
async fn start_and_end_line() {
    let five = "one\ntwo\nthree\nfour\nfive\n";
    let expected = "three\nfour\nfive\n";
    check(five, json!({"start_line": 3, "end_line": 5}), expected).await;
    check(
        five,
        json!({"start_line": 3, "end_line": 5, "offset": 3, "limit": 3}),
        expected,
    )
    .await;
    check(
        five,
        json!({"end_line": "1"}),
        "one\n\n[4 more lines in file. Use offset=2 to continue.]",
    )
    .await;
    let dir = with("f", five);
    let rows = [
        (
            json!({"path": "f", "start_line": 3, "offset": 2}),
            "  - offset: must not differ from start_line",
        ),
        (
            json!({"path": "f", "end_line": 3, "limit": 2}),
            "  - end_line: must not differ from limit",
        ),
        (
            json!({"path": "f", "start_line": 3, "end_line": 2}),
            "  - end_line: must not be before the first line",
        ),
        (
            json!({"path": "f", "end_line": [3]}),
            "  - end_line: must be number",
        ),
        (
            json!({"path": "f", "file_path": "g"}),
            "  - path: must not differ from file_path",
        ),
    ];
    for (args, problem) in rows {
        let error = text_of(&read(&dir, args).await);
        let start = format!(
            "error: Validation failed for tool \"read\":\n{problem}\n\nReceived arguments:\n{{"
        );
        assert!(error.starts_with(&start), "{error}");
    }
    let output = read(&dir, json!({"file_path": "f", "limit": 99}))
        .await
        .unwrap();
    assert_eq!(text(&output), five);
}

#[tokio::test]
async fn the_line_limit() {
    let lines = |n: usize| (1..=n).map(|n| format!("L{n}\n")).collect::<String>();
    check(lines(2000), json!({}), &lines(2000)).await;
    let dir = with("big.txt", lines(3000).trim_end());
    let output = read(&dir, json!({"path": "big.txt"})).await.unwrap();
    let kept = lines(2000).trim_end().to_owned();
    assert_eq!(
        text(&output),
        format!("{kept}\n\n[Showing lines 1-2000 of 3000. Use offset=2001 to continue.]")
    );
    let truncation = json!({
        "content": kept, "truncated": true, "truncatedBy": "lines", "totalLines": 3000, "totalBytes": 16892,
        "outputLines": 2000, "outputBytes": 10892, "lastLinePartial": false, "firstLineExceedsLimit": false,
        "maxLines": 2000, "maxBytes": 131_072,
    });
    assert_eq!(output.details, Some(json!({"truncation": truncation})));
    let output = read(&dir, json!({"path": "big.txt", "offset": 2, "limit": 2500}))
        .await
        .unwrap();
    assert!(
        text(&output)
            .ends_with("L2001\n\n[Showing lines 2-2001 of 3000. Use offset=2002 to continue.]")
    );
    assert_eq!(output.details.unwrap()["truncation"]["totalLines"], 2500);
}

#[tokio::test]
async fn the_byte_limit() {
    let line = format!("{}\n", "x".repeat(127));
    let whole = line.repeat(1024);
    assert_eq!(whole.len(), 131_072);
    check(&whole, json!({}), &whole).await;
    let dir = with("f", format!("{whole}y"));
    let output = read(&dir, json!({"path": "f"})).await.unwrap();
    assert!(text(&output).ends_with(
        "x\n\n[Showing lines 1-1024 of 1025 (128.0KB limit). Use offset=1025 to continue.]"
    ));
    let truncation = &output.details.unwrap()["truncation"];
    assert_eq!(
        (&truncation["truncatedBy"], &truncation["totalBytes"]),
        (&json!("bytes"), &json!(131_073))
    );
}

#[tokio::test]
async fn a_first_line_above_the_byte_limit() {
    let content = format!("short\n{}\ntail\n", "w".repeat(200_000));
    let dir = with("wide.txt", content);
    let output = read(&dir, json!({"path": "wide.txt", "offset": 2}))
        .await
        .unwrap();
    assert_eq!(
        text(&output),
        "[Line 2 is 195.3KB, exceeds 128.0KB limit. Use bash: sed -n '2p' wide.txt | head -c 131072]"
    );
    let truncation = &output.details.unwrap()["truncation"];
    assert_eq!(truncation["firstLineExceedsLimit"], true);
    assert_eq!(
        (&truncation["totalLines"], &truncation["totalBytes"]),
        (&json!(2), &json!(200_006))
    );
}

#[tokio::test]
async fn limit_comes_before_truncation() {
    let dir = with("f", "line\n".repeat(500_000));
    let output = read(&dir, json!({"path": "f", "limit": 1})).await.unwrap();
    assert_eq!(
        text(&output),
        "line\n\n[499999 more lines in file. Use offset=2 to continue.]"
    );
    assert_eq!(output.details, None);
}

#[tokio::test]
async fn a_giant_is_not_held_in_memory() {
    if !alone("read::a_giant_is_not_held_in_memory") {
        return;
    }
    let dir = with("giant", "text\n".repeat(2000));
    let file = fs::OpenOptions::new()
        .write(true)
        .open(dir.path().join("giant"))
        .unwrap();
    file.set_len(256 << 20).unwrap();
    let before = peak_memory();
    let output = read(&dir, json!({"path": "giant", "offset": 3, "limit": 1})).await;
    assert_eq!(
        text_of(&output),
        "text\n\n[1998 more lines in file. Use offset=4 to continue.]"
    );
    assert!(
        peak_memory() - before < 128 << 10,
        "grew by more than 128 MiB"
    );
}

#[tokio::test]
async fn encodings() {
    check(b"a\xffb\xc3\n", json!({}), "a\u{fffd}b\u{fffd}\n").await;
    let utf16: Vec<u8> = "\u{feff}naïve \u{1f600}\n2\n"
        .encode_utf16()
        .flat_map(u16::to_be_bytes)
        .collect();
    check(&utf16, json!({}), "naïve \u{1f600}\n2\n").await;
    check(&utf16, json!({"offset": 2}), "2\n").await;
    let error = "error: Cannot read f: it has NUL bytes, so it is a binary file. Use bash, with file, strings or xxd for example.";
    check(b"\x7fELF\0\0", json!({}), error).await;
}

#[tokio::test]
async fn what_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let error = text_of(&read(&dir, json!({"path": "nope"})).await);
    assert_eq!(
        error,
        format!(
            "error: ENOENT: no such file or directory, access '{}/nope'",
            dir.path().display()
        )
    );
    assert!(
        Command::new("mkfifo")
            .arg(dir.path().join("pipe"))
            .status()
            .unwrap()
            .success()
    );
    let error = text_of(&read(&dir, json!({"path": "pipe"})).await);
    assert_eq!(
        error,
        "error: Cannot read pipe: not a regular file but a named pipe"
    );
}

#[tokio::test]
async fn an_aborted_call_does_nothing() {
    let dir = with("f", "x");
    let abort = AbortSignal::new();
    abort.cancel();
    for name in ["read", "ls", "edit", "write"] {
        let args = match name {
            "edit" => json!({"path": "f", "oldText": "x", "newText": "y"}),
            "write" => json!({"path": "f", "content": "y"}),
            "ls" => json!({}),
            _ => json!({"path": "f"}),
        };
        let context = ToolContext {
            abort: abort.clone(),
            updates: UpdateSink::discarding(),
        };
        let result = call_in(builtin(name, &env(dir.path())).unwrap(), args, context).await;
        assert_eq!(text_of(&result), "error: Operation aborted", "{name}");
    }
    assert_eq!(fs::read(dir.path().join("f")).unwrap(), b"x");
}

#[tokio::test]
async fn a_folder_is_listed_two_levels_deep() {
    let dir = tempfile::tempdir().unwrap();
    for path in [
        "src/deep/er/x.rs",
        "src/Lib.rs",
        "src/a.rs",
        "target/out",
        ".git/config",
        "B.md",
    ] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    fs::write(dir.path().join(".gitignore"), "target/\n").unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let output = read(&dir, json!({"path": "."})).await.unwrap();
    assert_eq!(
        text(&output),
        ".gitignore\nB.md\nempty/\nsrc/\n  a.rs\n  deep/\n  Lib.rs"
    );
    assert_eq!(
        text(&read(&dir, json!({"path": "empty"})).await.unwrap()),
        "(empty directory)"
    );
    let output = read(&dir, json!({"path": ".", "limit": 2})).await.unwrap();
    assert_eq!(
        text(&output),
        ".gitignore\nB.md\n\n[2 entries limit reached. Use limit=4 for more]"
    );
    assert_eq!(output.details, Some(json!({"entryLimitReached": 2})));
}

#[tokio::test]
async fn a_large_folder_stops_at_500_entries() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..501 {
        fs::write(dir.path().join(format!("{n:03}")), "").unwrap();
    }
    let output = read(&dir, json!({"path": "."})).await.unwrap();
    assert!(text(&output).ends_with("499\n\n[500 entries limit reached. Use limit=1000 for more]"));
}

fn noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 1_u32;
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, _] = state.to_be_bytes();
        Rgb([a, b, c])
    }))
}

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format).unwrap();
    out.into_inner()
}

fn image_of(output: &ToolOutput) -> (Vec<u8>, String) {
    let Some(Content::Image(image)) = output.content.last() else {
        panic!("no image: {output:?}")
    };
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(&image.data)
        .unwrap();
    (bytes, image.mime_type.clone())
}

#[tokio::test]
async fn images_are_known_by_content_and_small_ones_sent_as_they_are() {
    let picture = noise(8, 6);
    for (format, mime) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::Gif, "image/gif"),
        (ImageFormat::WebP, "image/webp"),
    ] {
        let bytes = encoded(&picture, format);
        let dir = with("wrong.txt", &bytes);
        let output = read(&dir, json!({"path": "wrong.txt"})).await.unwrap();
        assert_eq!(
            output.content[0],
            Content::text(format!("Read image file [{mime}]"))
        );
        assert_eq!(image_of(&output), (bytes, mime.to_owned()));
    }
}

#[tokio::test]
async fn a_model_without_images_is_told() {
    let dir = with("i.png", encoded(&noise(2, 2), ImageFormat::Png));
    let env = env(dir.path());
    env.model_takes_images.store(false, Ordering::Relaxed);
    let output = call(builtin("read", &env).unwrap(), json!({"path": "i.png"}))
        .await
        .unwrap();
    assert_eq!(
        text(&output),
        "Read image file [image/png]\n[Current model does not support images. The image will be omitted from this request.]"
    );
    assert_eq!(image_of(&output).1, "image/png");
}

#[tokio::test]
async fn a_large_image_is_scaled_with_a_note() {
    let dir = with("shot.png", encoded(&noise(4000, 30), ImageFormat::Png));
    let output = read(&dir, json!({"path": "shot.png"})).await.unwrap();
    let (bytes, mime) = image_of(&output);
    assert_eq!(mime, "image/png");
    assert_eq!(
        text(&output),
        "Read image file [image/png]\n[Image: original 4000x30, displayed at 2000x15. Multiply coordinates by 2.00 to map to original image.]"
    );
    assert!(bytes.len().div_ceil(3) * 4 < 4_718_592);
    let shown = image::load_from_memory(&bytes).unwrap();
    assert_eq!((shown.width(), shown.height()), (2000, 15));

    let mut plain = plain_env(dir.path());
    plain.resize_images = false;
    let output = call(
        builtin("read", &Arc::new(plain)).unwrap(),
        json!({"path": "shot.png"}),
    )
    .await
    .unwrap();
    let sent = image::load_from_memory(&image_of(&output).0).unwrap();
    assert_eq!((sent.width(), sent.height()), (4000, 30));
}

#[tokio::test]
async fn a_turned_photo_is_shown_upright() {
    let mut exif =
        b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
            .to_vec();
    let jpeg = encoded(
        &DynamicImage::ImageRgb8(RgbImage::new(2400, 24)),
        ImageFormat::Jpeg,
    );
    let mut bytes = jpeg[..2].to_vec();
    bytes.append(&mut exif);
    bytes.extend_from_slice(&jpeg[2..]);
    let dir = with("photo.jpg", bytes);
    let output = read(&dir, json!({"path": "photo.jpg"})).await.unwrap();
    assert!(
        text(&output).contains("original 24x2400, displayed at 20x2000."),
        "{}",
        text(&output)
    );
}

#[tokio::test]
async fn images_that_cannot_be_sent() {
    let omitted = "Read image file [image/png]\n[Image omitted: could not be resized below the inline image size limit.]";
    let mut bomb = encoded(&noise(1, 1), ImageFormat::Png);
    bomb[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let crc = crc32(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&crc.to_be_bytes());
    for bytes in [bomb, b"\x89PNG\r\n\x1a\nbroken".to_vec()] {
        check(bytes, json!({}), omitted).await;
    }
    let bmp = [b"BM............".as_slice(), &40u32.to_le_bytes(), &[0; 40]].concat();
    let error = "error: Cannot read f: BMP images are not supported. Convert it to PNG or JPEG, with bash for example.";
    check(bmp, json!({}), error).await;
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
