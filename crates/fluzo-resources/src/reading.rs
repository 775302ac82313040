//! Reading text without being overwhelmed by it.

use std::io::{self, Read};
use std::path::Path;

use fluzo_exec::{FileSystem, errno_name, errno_text};
use fluzo_stdx::size::format_size;

/// Text of a file, perhaps not all of it.
pub(crate) struct Text {
    /// The text from its beginning, without a byte order mark. Bytes that are no UTF-8 are replaced.
    pub(crate) text: String,
    /// Whether there is more.
    pub(crate) cut: bool,
}

/// At most `limit` bytes of a regular file; never waits for a pipe or device.
pub(crate) fn read_start(files: &dyn FileSystem, path: &Path, limit: u64) -> io::Result<Text> {
    let mut bytes = Vec::new();
    let file = files.open(path)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let cut = bytes.len() > limit;
    if cut {
        bytes.truncate(limit);
        bytes.truncate(whole_characters(&bytes));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(Text {
        text: text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned(),
        cut,
    })
}

/// The whole text of a file of at most `limit` bytes; a text for the user when it cannot be had.
pub(crate) fn read_whole(
    files: &dyn FileSystem,
    path: &Path,
    limit: u64,
) -> Result<String, String> {
    let read = read_start(files, path, limit).map_err(|error| error_text(&error))?;
    if read.cut {
        return Err(format!("the file is longer than {}", format_size(limit)));
    }
    Ok(read.text)
}

/// Name and text of an error, such as `EACCES: permission denied`.
pub(crate) fn error_text(error: &io::Error) -> String {
    format!("{}: {}", errno_name(error), errno_text(error))
}

/// Length of the part that does not end in the middle of a character.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    let lead = bytes[tail..].iter().rposition(|byte| byte & 0xC0 != 0x80);
    let Some(lead) = lead.map(|at| tail + at) else {
        return bytes.len();
    };
    let wanted = match bytes[lead] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if bytes.len() - lead < wanted {
        lead
    } else {
        bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_leaves_whole_characters() {
        let text = "aé€😀b";
        for end in 0..=text.len() {
            let kept = whole_characters(&text.as_bytes()[..end]);
            let floor = (0..=end).rev().find(|at| text.is_char_boundary(*at));
            assert_eq!(Some(kept), floor, "{end}");
        }
        assert_eq!(whole_characters(&[0x80, 0x80, 0x80, 0x80]), 4);
    }
}
