//! Images that the user hands in, made ready as the `read` tool does it.

use fluzo_llm::ImageContent;

use crate::image_block::{self, SendLimits};
use crate::image_kind::{ImageKind, kind_of};
use crate::read::HEAD;

/// Stands where an image was that cannot be made small enough.
pub const OMITTED: &str =
    "[Image omitted: could not be resized below the inline image size limit.]";

/// Files above this are not sent as images.
pub const MAX_FILE_BYTES: u64 = image_block::MAX_FILE_BYTES;

/// Bytes from the start of a file that tell whether it is an image.
pub const HEAD_BYTES: usize = HEAD;

/// Whether a file that starts with `head` is an image of a known kind, sent or not.
pub fn is_image(head: &[u8]) -> bool {
    kind_of(head).is_some()
}

/// An image as providers take it.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedImage {
    /// The image.
    pub image: ImageContent,
    /// Says how its size relates to the original's when it was scaled.
    pub note: Option<String>,
}

/// Why an image is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotFitted {
    /// The bytes are no image of a known kind.
    #[error("not an image of a known kind; use PNG, JPEG, GIF or WebP")]
    Unknown,
    /// Providers do not take images of this kind.
    #[error("{0} images are not supported; convert it to PNG or JPEG")]
    Kind(&'static str),
    /// It cannot be read, or not be made small enough.
    #[error("the image is damaged, or cannot be resized below the inline image size limit")]
    Size,
}

/// Tells the kind of an image by its content and, when `resize` is set, brings it within what
/// all known providers take. Can take seconds of computing; run it where that holds nothing up.
///
/// # Errors
///
/// When it cannot be sent.
pub fn fit(bytes: Vec<u8>, resize: bool) -> Result<FittedImage, NotFitted> {
    let mime = match kind_of(bytes.get(..HEAD).unwrap_or(&bytes)) {
        Some(ImageKind::Sent(mime)) => mime,
        Some(ImageKind::Refused(name)) => return Err(NotFitted::Kind(name)),
        None => return Err(NotFitted::Unknown),
    };
    let limits = resize.then_some(SendLimits::COMMON);
    let block = image_block::prepare(bytes, mime, limits).ok_or(NotFitted::Size)?;
    Ok(block.into_fitted())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use image::{GrayImage, ImageFormat};

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        let image = GrayImage::new(width, height);
        image.write_to(&mut file, ImageFormat::Png).unwrap();
        file.into_inner()
    }

    #[test]
    fn large_images_are_scaled_with_a_note_and_others_left_alone() {
        let small = png(20, 10);
        let fitted = fit(small.clone(), true).unwrap();
        assert_eq!(STANDARD.decode(&fitted.image.data).unwrap(), small);
        assert_eq!(
            (fitted.image.mime_type.as_str(), fitted.note),
            ("image/png", None)
        );

        let large = png(4000, 1000);
        let fitted = fit(large.clone(), true).unwrap();
        let note = "[Image: original 4000x1000, displayed at 2000x500. Multiply coordinates by 2.00 to map to original image.]";
        assert_eq!(fitted.note.as_deref(), Some(note));
        let shown = STANDARD.decode(&fitted.image.data).unwrap();
        let shown = image::load_from_memory(&shown).unwrap();
        assert_eq!((shown.width(), shown.height()), (2000, 500));

        let as_it_is = fit(large.clone(), false).unwrap();
        assert_eq!(STANDARD.decode(&as_it_is.image.data).unwrap(), large);
    }

    #[test]
    fn what_cannot_be_sent_says_why() {
        let rows: [(&[u8], _); 4] = [
            (b"plain text", NotFitted::Unknown),
            (b"", NotFitted::Unknown),
            (b"II*\0rest", NotFitted::Kind("TIFF")),
            (b"\x89PNG\r\n\x1a\n", NotFitted::Size),
        ];
        for (bytes, expected) in rows {
            assert_eq!(fit(bytes.to_vec(), true), Err(expected));
        }
    }
}
