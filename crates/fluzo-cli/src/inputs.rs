//! The initial prompt: piped input, files and messages.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use fluzo_llm::ImageContent;
use fluzo_protocol::Prompt;

use crate::arguments::Typed;
use crate::surroundings::Surroundings;

/// Bytes that standard input or a file may have: far more than any model takes.
const LIMIT: u64 = 10 << 20;

/// Bytes from the beginning of a file in which a NUL tells that it is no text.
const LOOKED_AT: usize = 8 << 10;

/// The prompts of a run, in order. Piped input, then files, then the first message are
/// one prompt, without anything between them; further messages are prompts of their own.
/// What says nothing is passed over.
///
/// # Errors
///
/// The text for the user when a file cannot be read.
pub(crate) fn prompts(
    typed: &Typed,
    surroundings: &Surroundings,
    workspace: &Path,
) -> Result<Vec<Prompt>, String> {
    let mut first = Prompt {
        text: piped(surroundings)?,
        ..Prompt::default()
    };
    for file in &typed.files {
        add_file(&mut first, file, surroundings, workspace)?;
    }
    let mut messages = typed.messages.iter();
    if let Some(message) = messages.next() {
        first.text.push_str(message);
    }
    let mut prompts = Vec::new();
    prompts.push(first);
    prompts.extend(messages.map(|text| Prompt {
        text: text.clone(),
        ..Prompt::default()
    }));
    prompts.retain(|prompt| !prompt.text.trim().is_empty() || !prompt.images.is_empty());
    Ok(prompts)
}

fn piped(surroundings: &Surroundings) -> Result<String, String> {
    if surroundings.stdin_is_terminal {
        return Ok(String::new());
    }
    let bytes = match read_limited(std::io::stdin().lock()) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(too_large("standard input", None)),
        Err(error) => return Err(format!("standard input cannot be read: {error}")),
    };
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// All of `input`; `None` when it is larger than [`LIMIT`].
fn read_limited(input: impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    input.take(LIMIT + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= LIMIT).then_some(bytes))
}

fn too_large(what: &str, size: Option<u64>) -> String {
    let size = match size {
        Some(size) if size > LIMIT => format!("{size} bytes"),
        _ => format!("more than {LIMIT} bytes"),
    };
    format!(
        "{what} is too large: {size}, and a prompt takes at most {} MiB of it\nhint: keep it in a file and name its path in the message; tools read files piece by piece",
        LIMIT >> 20
    )
}

fn add_file(
    prompt: &mut Prompt,
    file: &str,
    surroundings: &Surroundings,
    workspace: &Path,
) -> Result<(), String> {
    let path = if file.starts_with('~') {
        surroundings.path(file)
    } else {
        workspace.join(file)
    };
    let shown = path.display();
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("File not found: {shown}"),
        _ => format!("Could not read file {shown}: {error}"),
    };
    let opened = File::open(&path).map_err(unreadable)?;
    let Some(bytes) = read_limited(&opened).map_err(unreadable)? else {
        let size = opened.metadata().ok().map(|metadata| metadata.len());
        return Err(too_large(&format!("file `{shown}`"), size));
    };
    if bytes.is_empty() {
        return Ok(());
    }
    if let Some(mime_type) = image_type(&bytes) {
        let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
        prompt.images.push(ImageContent {
            data,
            mime_type: mime_type.to_owned(),
            ..ImageContent::default()
        });
        prompt
            .text
            .push_str(&format!("<file name=\"{shown}\"></file>\n"));
    } else if bytes.iter().take(LOOKED_AT).any(|byte| *byte == 0) {
        return Err(format!(
            "file `{shown}` is binary and no image\nhint: name its path in the message without `@`, so that tools can work on it"
        ));
    } else {
        let text = String::from_utf8_lossy(&bytes);
        prompt
            .text
            .push_str(&format!("<file name=\"{shown}\">\n{text}\n</file>\n"));
    }
    Ok(())
}

fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}
