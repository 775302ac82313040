//! What kind of image a file is, by its first bytes.

/// A kind of image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageKind {
    /// Providers take it, as this media type.
    Sent(&'static str),
    /// They do not; its name.
    Refused(&'static str),
}

/// The kind of the image that starts with `head`; `None` when it is no known image.
pub(crate) fn kind_of(head: &[u8]) -> Option<ImageKind> {
    use ImageKind::{Refused, Sent};
    Some(match head {
        [0xff, 0xd8, 0xff, ..] => Sent("image/jpeg"),
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] if is_animated(head) => {
            Refused("animated PNG")
        }
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Sent("image/png"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Sent("image/gif"),
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
        ] => Sent("image/webp"),
        [b'B', b'M', ..] if is_bitmap(head) => Refused("BMP"),
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Refused("TIFF"),
        [0, 0, 1, 0, count, 0, ..] if *count > 0 => Refused("ICO"),
        [0, 0, 0, _, b'f', b't', b'y', b'p', brand @ ..] => match brand.get(..4)? {
            b"avif" | b"avis" => Refused("AVIF"),
            b"heic" | b"heix" | b"mif1" | b"msf1" => Refused("HEIC"),
            _ => return None,
        },
        _ => return None,
    })
}

/// An animation chunk comes before the image data.
fn is_animated(head: &[u8]) -> bool {
    let mut rest = &head[8..];
    while let [a, b, c, d, kind @ ..] = rest {
        match kind.get(..4) {
            Some(b"acTL") => return true,
            Some(b"IDAT") | None => return false,
            Some(_) => {}
        }
        let len = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        rest = rest.get(len.saturating_add(12)..).unwrap_or_default();
    }
    false
}

/// Text may begin with the same two letters, so the header's size counts too.
fn is_bitmap(head: &[u8]) -> bool {
    let size = head
        .get(14..18)
        .map(|size| u32::from_le_bytes([size[0], size[1], size[2], size[3]]));
    matches!(size, Some(12 | 40 | 52 | 56 | 64 | 108 | 124))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let png = |chunk: &[u8]| {
            let start = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR.................\0\0\0\0";
            [start, chunk, b"...."].concat()
        };
        let mut bmp = b"BM............".to_vec();
        bmp.extend(40u32.to_le_bytes());
        let rows: [(&[u8], Option<ImageKind>); 9] = [
            (b"\xff\xd8\xff\xe0", Some(ImageKind::Sent("image/jpeg"))),
            (&png(b"IDAT"), Some(ImageKind::Sent("image/png"))),
            (&png(b"acTL"), Some(ImageKind::Refused("animated PNG"))),
            (b"GIF89a", Some(ImageKind::Sent("image/gif"))),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some(ImageKind::Sent("image/webp"))),
            (&bmp, Some(ImageKind::Refused("BMP"))),
            (b"BM is what the text begins with", None),
            (b"\0\0\0\x1cftypavif", Some(ImageKind::Refused("AVIF"))),
            (b"plain", None),
        ];
        for (head, kind) in rows {
            assert_eq!(kind_of(head), kind, "{head:?}");
        }
    }
}
