//! Colours, and how many of them a terminal has.

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Color {
    /// What the terminal uses anyway.
    Default,
    /// A number of the palette of 256.
    Palette(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

impl Color {
    /// The colour for a terminal of that depth: a mixture becomes the nearest of the palette where needed.
    pub fn at(self, depth: ColorDepth) -> Self {
        match (self, depth) {
            (Self::Rgb(red, green, blue), ColorDepth::Palette) => {
                Self::Palette(nearest([red, green, blue]))
            }
            (color, _) => color,
        }
    }

    /// Reads `#RRGGBB`.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#')?;
        if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let [_, red, green, blue] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
        Some(Self::Rgb(red, green, blue))
    }
}

/// How many colours a terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorDepth {
    /// The palette of 256.
    Palette,
    /// All of them.
    True,
}

impl ColorDepth {
    /// What the variables `COLORTERM`, `TERM` and `TERM_PROGRAM` say; `windows_terminal` is whether `WT_SESSION` is set.
    pub fn of(
        colorterm: Option<&str>,
        term: Option<&str>,
        term_program: Option<&str>,
        windows_terminal: bool,
    ) -> Self {
        if matches!(colorterm, Some("truecolor" | "24bit")) || windows_terminal {
            return Self::True;
        }
        let term = term.unwrap_or_default();
        let few = matches!(term, "dumb" | "" | "linux")
            || term.starts_with("screen")
            || term_program == Some("Apple_Terminal");
        if few { Self::Palette } else { Self::True }
    }
}

/// Levels of each channel in the cube of the palette, which begins at number 16.
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];
/// First number of the greys, and how many there are; their levels are 8, 18, 28, …
const GREYS: (u8, u8) = (232, 24);
/// Below this difference of channels a mixture counts as grey.
const GREY_SPREAD: u8 = 10;

fn nearest(color: [u8; 3]) -> u8 {
    let steps = color.map(|channel| {
        let distance = |at: &usize| CUBE[*at].abs_diff(channel);
        (0..CUBE.len()).min_by_key(distance).unwrap_or_default()
    });
    let cube = steps.map(|step| CUBE[step]);
    let number = steps.iter().fold(0, |sum, step| sum * 6 + step);
    let number = 16 + u8::try_from(number).unwrap_or_default();
    let spread = color.iter().max().zip(color.iter().min());
    if spread.is_none_or(|(most, least)| most - least >= GREY_SPREAD) {
        return number;
    }
    let greys = (0..GREYS.1).map(|at| (GREYS.0 + at, [8 + 10 * at; 3]));
    let grey = greys.min_by_key(|(_, level)| distance(color, *level));
    match grey {
        Some((grey, level)) if distance(color, level) < distance(color, cube) => grey,
        _ => number,
    }
}

/// Squared distance, channels weighed as the eye does.
fn distance(a: [u8; 3], b: [u8; 3]) -> u32 {
    let weights = [299, 587, 114];
    let parts = a.iter().zip(b).zip(weights);
    parts
        .map(|((a, b), weight)| u32::from(a.abs_diff(b)).pow(2) * weight)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex() {
        assert_eq!(Color::from_hex("#01aBff"), Some(Color::Rgb(1, 0xab, 255)));
        for text in [
            "", "#", "#fff", "01abff", "#01abfg", "#01abff0", "#+1abff", "#é1ab",
        ] {
            assert_eq!(Color::from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn nearest_of_the_palette() {
        let check = |hex: &str, expected: u8| {
            let color = Color::from_hex(hex).map(|color| color.at(ColorDepth::Palette));
            assert_eq!(color, Some(Color::Palette(expected)), "{hex}");
        };
        check("#000000", 16);
        check("#ffffff", 231);
        check("#ff0000", 196);
        check("#5f87ff", 69);
        check("#808080", 244);
        check("#505050", 239);
        check("#3a3a4a", 59);
        assert_eq!(
            Color::Rgb(1, 2, 3).at(ColorDepth::True),
            Color::Rgb(1, 2, 3)
        );
        assert_eq!(Color::Default.at(ColorDepth::Palette), Color::Default);
    }

    #[test]
    fn depth_by_variables() {
        let check = |colorterm, term, program, windows, expected| {
            let depth = ColorDepth::of(colorterm, term, program, windows);
            assert_eq!(depth, expected, "{colorterm:?} {term:?} {program:?}");
        };
        check(
            Some("truecolor"),
            Some("dumb"),
            None,
            false,
            ColorDepth::True,
        );
        check(Some("24bit"), None, None, false, ColorDepth::True);
        check(None, None, None, true, ColorDepth::True);
        check(None, Some("xterm-256color"), None, false, ColorDepth::True);
        check(None, Some("dumb"), None, false, ColorDepth::Palette);
        check(None, None, None, false, ColorDepth::Palette);
        check(None, Some("linux"), None, false, ColorDepth::Palette);
        check(None, Some("screen.xterm"), None, false, ColorDepth::Palette);
        check(
            None,
            Some("xterm"),
            Some("Apple_Terminal"),
            false,
            ColorDepth::Palette,
        );
    }
}
