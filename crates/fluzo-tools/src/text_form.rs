//! How a file writes its text: UTF-8 or UTF-16, with its byte-order mark.

use std::borrow::Cow;

/// How a file writes its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// UTF-8, or bytes that mostly are.
    Utf8 {
        /// Starts with a byte-order mark.
        mark: bool,
    },
    /// UTF-16, least byte first, with a byte-order mark.
    Utf16Le,
    /// UTF-16, greatest byte first, with a byte-order mark.
    Utf16Be,
}

/// Why a file is not edited as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotText {
    /// It has NUL bytes.
    Nul,
    /// It says that it is UTF-16 and is not.
    BrokenUtf16,
}

/// The mark of UTF-8.
pub(crate) const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

impl TextForm {
    /// The form that the first bytes of a file tell.
    pub(crate) fn of(head: &[u8]) -> Self {
        match head {
            [0xff, 0xfe, ..] => Self::Utf16Le,
            [0xfe, 0xff, ..] => Self::Utf16Be,
            _ => Self::Utf8 {
                mark: head.starts_with(UTF8_MARK),
            },
        }
    }

    /// The text of a whole file without its mark, as UTF-8 where the bytes are valid.
    ///
    /// # Errors
    ///
    /// The bytes are no text.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Cow<'_, [u8]>, NotText> {
        let text = match self {
            Self::Utf8 { mark } => Cow::Borrowed(&bytes[if mark { UTF8_MARK.len() } else { 0 }..]),
            Self::Utf16Le => Cow::Owned(decode_utf16(bytes, u16::from_le_bytes)?),
            Self::Utf16Be => Cow::Owned(decode_utf16(bytes, u16::from_be_bytes)?),
        };
        if memchr::memchr(0, &text).is_some() {
            Err(NotText::Nul)
        } else {
            Ok(text)
        }
    }

    /// The whole file again, mark included.
    pub(crate) fn encode(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Utf8 { mark: false } => text.to_vec(),
            Self::Utf8 { mark: true } => [UTF8_MARK, text].concat(),
            Self::Utf16Le => encode_utf16(text, u16::to_le_bytes),
            Self::Utf16Be => encode_utf16(text, u16::to_be_bytes),
        }
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Vec<u8>, NotText> {
    let pairs = bytes[2..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(NotText::BrokenUtf16);
    }
    let units = pairs.map(|pair| unit([pair[0], pair[1]]));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    text.map(String::into_bytes)
        .map_err(|_| NotText::BrokenUtf16)
}

fn encode_utf16(text: &[u8], bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    std::iter::once(0xfeff)
        .chain(text.encode_utf16())
        .flat_map(bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_round_trip() {
        let rows: [(&[u8], TextForm, &[u8]); 5] = [
            (b"a\r\n", TextForm::Utf8 { mark: false }, b"a\r\n"),
            (b"\xef\xbb\xbfa", TextForm::Utf8 { mark: true }, b"a"),
            (b"a\xff", TextForm::Utf8 { mark: false }, b"a\xff"),
            (
                b"\xff\xfea\0=\xd8\0\xde",
                TextForm::Utf16Le,
                "a\u{1f600}".as_bytes(),
            ),
            (b"\xfe\xff\0a", TextForm::Utf16Be, b"a"),
        ];
        for (bytes, form, text) in rows {
            assert_eq!(TextForm::of(bytes), form);
            assert_eq!(form.decode(bytes).unwrap(), text);
            assert_eq!(form.encode(text), bytes);
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let rows: [(&[u8], NotText); 4] = [
            (b"a\0b", NotText::Nul),
            (b"\xff\xfe\0\0a\0", NotText::Nul),
            (b"\xff\xfea", NotText::BrokenUtf16),
            (b"\xff\xfe\0\xd8a\0", NotText::BrokenUtf16),
        ];
        for (bytes, why) in rows {
            assert_eq!(TextForm::of(bytes).decode(bytes), Err(why));
        }
    }
}
