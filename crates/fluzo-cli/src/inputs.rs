//! The initial prompt: piped input, files and messages.

use std::io::Read;
use std::path::Path;

use base64::Engine;
use fluzo_llm::Content;
use fluzo_protocol::Prompt;

use crate::arguments::Typed;
use crate::surroundings::Surroundings;

/// The prompts of a run, in order. Piped input, then files, then the first message are
/// one prompt, without anything between them; further messages are prompts of their own.
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
    if !first.text.is_empty() || !first.images.is_empty() {
        prompts.push(first);
    }
    prompts.extend(messages.map(|text| Prompt {
        text: text.clone(),
        ..Prompt::default()
    }));
    Ok(prompts)
}

fn piped(surroundings: &Surroundings) -> Result<String, String> {
    if surroundings.stdin_is_terminal {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    read.map_err(|error| format!("standard input cannot be read: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
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
    let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("File not found: {shown}"),
        _ => format!("Could not read file {shown}: {error}"),
    })?;
    if bytes.is_empty() {
        return Ok(());
    }
    if let Some(mime_type) = image_type(&bytes) {
        let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
        prompt.images.push(Content::image(data, mime_type));
        prompt
            .text
            .push_str(&format!("<file name=\"{shown}\"></file>\n"));
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
