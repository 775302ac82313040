//! Images as providers take them: within their size, upright, with a note on the scale.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use fluzo_llm::{Content, ImageContent, ToolOutput};
use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgb, RgbImage};

use crate::images::{FittedImage, OMITTED};

/// Files above this are not read as images.
pub(crate) const MAX_FILE_BYTES: u64 = 64 << 20;
/// Memory that decoding may take; a small file can ask for far more.
const MAX_DECODED: u64 = 384 << 20;
/// Qualities tried, best first.
const QUALITIES: [u8; 5] = [80, 85, 70, 55, 40];

/// What providers take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendLimits {
    /// Longest side, in pixels.
    pub(crate) max_side: u32,
    /// Base64 characters stay below this.
    pub(crate) max_base64: usize,
}

impl SendLimits {
    /// What all known providers take.
    pub(crate) const COMMON: Self = Self {
        max_side: 2000,
        max_base64: 4_718_592,
    };
}

/// An image ready to be sent.
pub(crate) struct ImageBlock {
    base64: String,
    mime: &'static str,
    note: Option<String>,
}

impl ImageBlock {
    /// As what the user hands in.
    pub(crate) fn into_fitted(self) -> FittedImage {
        FittedImage {
            image: ImageContent {
                data: self.base64,
                mime_type: self.mime.to_owned(),
                ..ImageContent::default()
            },
            note: self.note,
        }
    }
}

/// Brings an image file within `limits`; without limits it stays as it is. `None` when that is
/// not possible.
pub(crate) fn prepare(
    bytes: Vec<u8>,
    mime: &'static str,
    limits: Option<SendLimits>,
) -> Option<ImageBlock> {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return None;
    }
    let Some(limits) = limits else {
        return Some(ImageBlock {
            base64: BASE64.encode(&bytes),
            mime,
            note: None,
        });
    };
    let mut decoder = reader(&bytes)?.into_decoder().ok()?;
    let (width, height) = decoder.dimensions();
    let side = width.max(height);
    if side <= limits.max_side && base64_len(bytes.len()) < limits.max_base64 {
        return Some(ImageBlock {
            base64: BASE64.encode(&bytes),
            mime,
            note: None,
        });
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = plain(DynamicImage::from_decoder(decoder).ok()?);
    drop(bytes);
    image.apply_orientation(orientation);
    shrunk(&image, limits)
}

/// The result of reading an image.
pub(crate) fn output(
    mime: &str,
    block: Option<ImageBlock>,
    model_takes_images: bool,
) -> ToolOutput {
    let mut text = format!("Read image file [{mime}]");
    let Some(block) = block else {
        text.push('\n');
        text.push_str(OMITTED);
        return ToolOutput::text(text);
    };
    if block.mime != mime {
        text = format!("Read image file [{}]", block.mime);
    }
    if let Some(note) = &block.note {
        text.push('\n');
        text.push_str(note);
    }
    if !model_takes_images {
        text.push_str("\n[Current model does not support images. The image will be omitted from this request.]");
    }
    let content = vec![
        Content::text(text),
        Content::image(block.base64, block.mime),
    ];
    ToolOutput {
        content,
        ..ToolOutput::default()
    }
}

fn reader(bytes: &[u8]) -> Option<ImageReader<Cursor<&[u8]>>> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .ok()?;
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_DECODED);
    reader.limits(limits);
    Some(reader)
}

/// Eight bits a channel, with transparency only where there is some.
fn plain(image: DynamicImage) -> DynamicImage {
    if image.color().has_alpha() {
        DynamicImage::ImageRgba8(image.into_rgba8())
    } else {
        DynamicImage::ImageRgb8(image.into_rgb8())
    }
}

fn shrunk(image: &DynamicImage, limits: SendLimits) -> Option<ImageBlock> {
    let (width, height) = (image.width(), image.height());
    let (mut w, mut h) = fit(width, height, limits.max_side);
    loop {
        let scaled = scale(image, w, h)?;
        if let Some((base64, mime)) = small_enough(&scaled, limits.max_base64) {
            return Some(ImageBlock {
                base64,
                mime,
                note: note((width, height), (w, h)),
            });
        }
        if (w, h) == (1, 1) {
            return None;
        }
        (w, h) = ((w * 3 / 4).max(1), (h * 3 / 4).max(1));
    }
}

/// The largest size of the same shape within the limit.
fn fit(width: u32, height: u32, max_side: u32) -> (u32, u32) {
    let longest = u64::from(width.max(height));
    if longest <= u64::from(max_side) {
        return (width, height);
    }
    let side = |n: u32| {
        let scaled = (u64::from(n) * u64::from(max_side) + longest / 2) / longest;
        u32::try_from(scaled).unwrap_or(max_side).max(1)
    };
    (side(width), side(height))
}

fn scale(image: &DynamicImage, width: u32, height: u32) -> Option<DynamicImage> {
    if (image.width(), image.height()) == (width, height) {
        return Some(image.clone());
    }
    let mut scaled = DynamicImage::new(width, height, image.color());
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Lanczos3));
    Resizer::new().resize(image, &mut scaled, &options).ok()?;
    Some(scaled)
}

fn small_enough(image: &DynamicImage, max_base64: usize) -> Option<(String, &'static str)> {
    let mut png = Cursor::new(Vec::new());
    image.write_to(&mut png, ImageFormat::Png).ok()?;
    if base64_len(png.get_ref().len()) < max_base64 {
        return Some((BASE64.encode(png.into_inner()), "image/png"));
    }
    let opaque = on_white(image);
    QUALITIES.into_iter().find_map(|quality| {
        let mut jpeg = Vec::new();
        JpegEncoder::new_with_quality(&mut jpeg, quality)
            .encode_image(&opaque)
            .ok()?;
        (base64_len(jpeg.len()) < max_base64).then(|| (BASE64.encode(jpeg), "image/jpeg"))
    })
}

/// JPEG has no transparency; a white page stands behind it.
fn on_white(image: &DynamicImage) -> RgbImage {
    let Some(rgba) = image.as_rgba8() else {
        return image.to_rgb8();
    };
    RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [r, g, b, alpha] = rgba.get_pixel(x, y).0;
        let blend = |c: u8| {
            let (c, alpha) = (u16::from(c), u16::from(alpha));
            u8::try_from((c * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX)
        };
        Rgb([blend(r), blend(g), blend(b)])
    })
}

fn note(original: (u32, u32), shown: (u32, u32)) -> Option<String> {
    (original != shown).then(|| {
        let ((width, height), (w, h)) = (original, shown);
        let factor = f64::from(width) / f64::from(w);
        format!(
            "[Image: original {width}x{height}, displayed at {w}x{h}. Multiply coordinates by {factor:.2} to map to original image.]"
        )
    })
}

fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(width: u32, height: u32) -> Vec<u8> {
        let mut state = 1_u32;
        let image = RgbImage::from_fn(width, height, |_, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [a, b, c, _] = state.to_be_bytes();
            Rgb([a, b, c])
        });
        let mut png = Cursor::new(Vec::new());
        image.write_to(&mut png, ImageFormat::Png).unwrap();
        png.into_inner()
    }

    /// Prepares noise of 60 by 40 pixels.
    fn check(max_side: u32, max_base64: usize, expected: Option<(&str, Option<&str>)>) {
        let limits = SendLimits {
            max_side,
            max_base64,
        };
        let block = prepare(noise(60, 40), "image/png", Some(limits));
        let got = block
            .as_ref()
            .map(|block| (block.mime, block.note.as_deref()));
        assert_eq!(got, expected, "{max_side} {max_base64}");
        assert!(block.is_none_or(|block| block.base64.len() < max_base64));
    }

    #[test]
    fn the_first_form_that_is_small_enough_is_taken() {
        let note = |w, h, factor: &str| {
            format!(
                "[Image: original 60x40, displayed at {w}x{h}. Multiply coordinates by {factor} to map to original image.]"
            )
        };
        check(60, 20_000, Some(("image/png", None)));
        check(30, 20_000, Some(("image/png", Some(&note(30, 20, "2.00")))));
        check(60, 6_000, Some(("image/jpeg", None)));
        check(60, 1_600, Some(("image/jpeg", Some(&note(33, 22, "1.82")))));
        check(60, 8, None);
    }

    #[test]
    fn transparency_becomes_white_in_a_jpeg() {
        let clear = DynamicImage::ImageRgba8(image::RgbaImage::new(1, 1));
        assert_eq!(on_white(&clear).get_pixel(0, 0).0, [255, 255, 255]);
    }
}
