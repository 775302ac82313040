//! The initial prompt: piped input, files and messages.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use fluzo_exec::LocalFileSystem;
use fluzo_protocol::Prompt;
use fluzo_tools::images::{self, FittedImage, NotFitted};
use fluzo_tools::paths::{Places, several_names};

use crate::arguments::Typed;
use crate::surroundings::Surroundings;

/// Bytes that standard input or a file may have: far more than any model takes.
const LIMIT: u64 = 10 << 20;

/// Bytes from the beginning of a file in which a NUL tells that it is no text.
const LOOKED_AT: usize = 8 << 10;

/// How files are found and read.
#[derive(Clone, Copy)]
struct Reading<'a> {
    places: Places<'a>,
    resize_images: bool,
}

/// The prompts of a run, in order. Piped input, then files, then the first message are
/// one prompt, without anything between them; further messages are prompts of their own.
/// What says nothing is passed over. Files are found as the `read` tool finds its path, and
/// images scaled as it does when `resize_images` is set.
///
/// # Errors
///
/// The text for the user when a file cannot be read.
pub(crate) fn prompts(
    typed: &Typed,
    surroundings: &Surroundings,
    workspace: &Path,
    resize_images: bool,
) -> Result<Vec<Prompt>, String> {
    let reading = Reading {
        places: Places {
            cwd: workspace,
            home: surroundings.home.as_deref(),
            fs: &LocalFileSystem,
        },
        resize_images,
    };
    let mut first = Prompt {
        text: piped(surroundings)?,
        ..Prompt::default()
    };
    for file in &typed.files {
        add_file(&mut first, file, reading)?;
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

/// Adds what `file` holds to `prompt`.
fn add_file(prompt: &mut Prompt, file: &str, reading: Reading<'_>) -> Result<(), String> {
    let path = reading.places.find(file).map_err(|names| {
        let path = reading.places.cwd.join(file);
        let names = several_names(&names);
        format!("File not found: {}\nhint: {names}", path.display())
    })?;
    let shown = path.display();
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("File not found: {shown}"),
        _ => format!("Could not read file {shown}: {error}"),
    };
    let opened = File::open(&path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut head = (&opened).take(images::HEAD_BYTES as u64);
    head.read_to_end(&mut bytes).map_err(unreadable)?;
    let is_image = images::is_image(&bytes);
    let limit = if is_image {
        images::MAX_FILE_BYTES
    } else {
        LIMIT
    };
    let mut rest = (&opened).take((limit + 1).saturating_sub(bytes.len() as u64));
    rest.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit && !is_image {
        let size = opened.metadata().ok().map(|metadata| metadata.len());
        return Err(too_large(&format!("file `{shown}`"), size));
    }
    if bytes.is_empty() {
        return Ok(());
    }
    let text = if is_image {
        let fitted = images::fit(bytes, reading.resize_images);
        image_text(prompt, fitted).map_err(|error| format!("file `{shown}`: {error}"))?
    } else if bytes.iter().take(LOOKED_AT).any(|byte| *byte == 0) {
        return Err(format!(
            "file `{shown}` is binary and no image\nhint: name its path in the message without `@`, so that tools can work on it"
        ));
    } else {
        format!("\n{}\n", String::from_utf8_lossy(&bytes))
    };
    let tagged = format!("<file name=\"{shown}\">{text}</file>\n");
    prompt.text.push_str(&tagged);
    Ok(())
}

/// Adds an image to `prompt`; returns what is said about it.
fn image_text(
    prompt: &mut Prompt,
    fitted: Result<FittedImage, NotFitted>,
) -> Result<String, NotFitted> {
    match fitted {
        Ok(fitted) => {
            prompt.images.push(fitted.image);
            Ok(fitted.note.unwrap_or_default())
        }
        Err(NotFitted::Size) => Ok(images::OMITTED.to_owned()),
        Err(refused) => Err(refused),
    }
}
