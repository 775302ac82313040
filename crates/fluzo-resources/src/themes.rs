//! Themes: which colour each part of the screen has.

mod built_in;
mod color;
mod parse;
mod token;

use std::collections::{HashMap, HashSet};

use crate::diagnostic::{Diagnostic, ResourceKind};
use crate::gather::gather;
use crate::reading::read_whole;
use crate::skills::is_new;
use crate::sources::{SourceInfo, Sources};

pub use color::{Color, ColorDepth};
pub use parse::ThemeError;
pub use token::Token;

/// The theme that others fall back to.
pub const DARK: &str = "dark";
/// The built-in theme for bright backgrounds.
pub const LIGHT: &str = "light";

/// A theme, all variables resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Its name.
    pub name: String,
    /// Colours of exported pages.
    pub export: Export,
    /// Where it comes from; `None` when it is built in.
    pub source: Option<SourceInfo>,
    colors: [Color; Token::COUNT],
}

/// Colours of exported pages; where there is none, one is derived from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// Behind the page.
    pub page_bg: Option<Color>,
    /// Behind cards.
    pub card_bg: Option<Color>,
    /// Behind notes.
    pub info_bg: Option<Color>,
}

impl Theme {
    /// The colour of a part.
    pub fn color(&self, token: Token) -> Color {
        self.colors
            .get(token as usize)
            .copied()
            .unwrap_or(Color::Default)
    }

    /// The built-in themes, `dark` first.
    pub fn built_in() -> [Self; 2] {
        built_in::themes()
    }

    /// Reads a theme file; `label` is what errors call it.
    ///
    /// # Errors
    /// When it is no JSON, when something is missing or of the wrong kind, when a variable leads nowhere or in a circle.
    pub fn parse(label: &str, text: &str) -> Result<Self, ThemeError> {
        parse::theme(label, text)
    }
}

/// The name of the theme for a terminal that says so in `COLORFGBG`: `light` when its second field is 8 or more, else `dark`.
pub fn default_name(colorfgbg: Option<&str>) -> &'static str {
    let field = colorfgbg.and_then(|text| text.split(';').nth(1));
    let background: Option<u32> = field.and_then(|text| text.trim().parse().ok());
    if background.is_some_and(|number| number >= 8) {
        LIGHT
    } else {
        DARK
    }
}

/// The theme of that name; when there is none, the dark one and what to tell the user.
pub fn choose(themes: &[Theme], name: &str) -> (Theme, Option<String>) {
    if let Some(theme) = themes.iter().find(|theme| theme.name == name) {
        return (theme.clone(), None);
    }
    let [dark, _] = Theme::built_in();
    (dark, Some(format!("Theme not found: {name}")))
}

/// Loads themes: the built-in ones, then those of files in order of precedence. The first of a name counts.
pub(crate) fn load(sources: &Sources, diagnostics: &mut Vec<Diagnostic>) -> Vec<Theme> {
    let mut themes = Vec::from(Theme::built_in());
    let mut by_name: HashMap<String, String> = themes
        .iter()
        .map(|theme| (theme.name.clone(), format!("the built-in {}", theme.name)))
        .collect();
    let mut seen = HashSet::new();
    for source in gather(ResourceKind::Theme, sources, diagnostics) {
        if !is_new(sources, &source.path, &mut seen) {
            continue;
        }
        let path = source.path.clone();
        let read = read_whole(&*sources.files, &path, sources.limits.resource_bytes)
            .map_err(|error| format!("the theme is not loaded: {error}"))
            .and_then(|text| {
                Theme::parse(&path.to_string_lossy(), &text).map_err(|error| error.to_string())
            });
        let theme = match read {
            Ok(theme) => theme,
            Err(text) => {
                diagnostics.push(Diagnostic::warning(ResourceKind::Theme, &path, text));
                continue;
            }
        };
        if let Some(winner) = by_name.get(&theme.name) {
            diagnostics.push(Diagnostic::collision(
                ResourceKind::Theme,
                &theme.name,
                &theme.name,
                winner,
                &path,
            ));
        } else {
            by_name.insert(theme.name.clone(), path.to_string_lossy().into_owned());
            themes.push(Theme {
                source: Some(source),
                ..theme
            });
        }
    }
    themes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_themes_have_every_token() {
        let [dark, light] = Theme::built_in();
        assert_eq!((&*dark.name, &*light.name), (DARK, LIGHT));
        assert_eq!(Token::ALL.len(), 51);
        assert_eq!(dark.color(Token::Accent), Color::Rgb(0x8a, 0xbe, 0xb7));
        assert_eq!(light.color(Token::Accent), Color::Rgb(0x5a, 0x80, 0x80));
        for theme in [&dark, &light] {
            for token in [Token::Text, Token::UserMessageText, Token::ToolTitle] {
                assert_eq!(theme.color(token), Color::Default);
            }
            assert_ne!(theme.color(Token::BashMode), Color::Default);
        }
    }

    #[test]
    fn the_default_follows_the_background() {
        for (variable, expected) in [
            (None, DARK),
            (Some("15;0"), DARK),
            (Some("0;7"), DARK),
            (Some("0;8"), LIGHT),
            (Some("0;15"), LIGHT),
            (Some("0;default;15"), DARK),
            (Some(""), DARK),
            (Some("12"), DARK),
        ] {
            assert_eq!(default_name(variable), expected, "{variable:?}");
        }
    }

    #[test]
    fn an_unknown_theme_falls_back_to_dark() {
        let themes = Theme::built_in();
        assert_eq!(choose(&themes, LIGHT), (themes[1].clone(), None));
        assert_eq!(
            choose(&themes, "x"),
            (themes[0].clone(), Some("Theme not found: x".to_owned()))
        );
    }
}
