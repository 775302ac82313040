//! Themes.

use std::fmt::Write;

use fluzo_resources::themes::{self, Color, Token};
use fluzo_resources::{Resources, Theme};

use crate::support::Fixture;

fn theme(name: &str) -> String {
    let mut text = format!("{{\"name\": \"{name}\", \"vars\": {{\"v\": 3}}, \"colors\": {{");
    for token in Token::ALL {
        write!(text, "\"{}\": \"v\",", token.name()).unwrap();
    }
    text.trim_end_matches(',').to_owned() + "}}"
}

#[test]
fn places_and_collisions() {
    let fixture = Fixture::new();
    fixture.write(".pi/agent/themes/a.json", theme("own"));
    fixture.write("repo/work/.pi/themes/b.json", theme("project"));
    fixture.write(".pi/agent/themes/c.json", theme("dark"));
    fixture.write(".pi/agent/themes/d.json", theme("own"));
    fixture.write(".pi/agent/themes/e.txt", theme("text"));
    fixture.write("flag.json", theme("flag"));
    let mut sources = fixture.sources();
    sources.flags.themes = vec!["~/flag.json".to_owned()];
    let resources = Resources::load(&sources);
    let names: Vec<&str> = resources.themes.iter().map(|theme| &*theme.name).collect();
    assert_eq!(names, ["dark", "light", "project", "own", "flag"]);
    assert_eq!(
        fixture.told(&resources),
        [
            "name \"dark\" collision: the built-in dark is used, ~/.pi/agent/themes/c.json is not",
            "name \"own\" collision: ~/.pi/agent/themes/a.json is used, ~/.pi/agent/themes/d.json is not",
        ]
    );
    let own = resources.theme("own").unwrap();
    assert_eq!(own.color(Token::MdHr), Color::Palette(3));
    assert_eq!(themes::choose(&resources.themes, "own").0, *own);
    sources.discover.themes = false;
    assert_eq!(Resources::load(&sources).themes.len(), 3);
}

#[test]
fn a_broken_theme_is_told_and_left_out() {
    let fixture = Fixture::new();
    let check = |text: &str, expected: &str| {
        fixture.write(".pi/agent/themes/a.json", text);
        let resources = fixture.load();
        assert_eq!(resources.themes, Theme::built_in());
        let told = fixture.told(&resources);
        assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    };
    check("{", "Failed to parse theme ~/.pi/agent/themes/a.json: ");
    check(
        "{\"name\": \"x\", \"colors\": {}}",
        "Invalid theme \"~/.pi/agent/themes/a.json\":\n\nMissing required color tokens:\n  - accent\n  - border\n",
    );
    let circle = theme("x").replace("{\"v\": 3}", "{\"v\": \"v\"}");
    check(&circle, "Circular variable reference detected: v");
    let unknown = theme("x").replace("{\"v\": 3}", "{}");
    check(&unknown, "Variable reference not found: v");
}
