//! The man page: one page for all commands, made from the tables of help and flags.

use std::fmt::Write;

use crate::flags::{FLAGS, Flag, Takes};
use crate::{help, reference};

/// The page as roff source.
pub(crate) fn page() -> String {
    let mut page = Page::default();
    page.line(&format!(
        ".TH FLUZO 1 \"\" \"fluzo {}\" \"User commands\"",
        env!("CARGO_PKG_VERSION")
    ));
    page.section("NAME");
    let command = help::command();
    let about = command.get_about().map(ToString::to_string);
    page.text(&format!("fluzo - {}", about.unwrap_or_default()));
    page.section("SYNOPSIS");
    for line in [
        "pi [OPTION...] [@FILE...] [MESSAGE...]",
        "COMMAND [ARGUMENT...]",
        "--help|--version",
    ] {
        page.line(&format!(".B fluzo\n{}\n.br", escaped(line)));
    }
    page.section("COMMANDS");
    for command in command.get_subcommands() {
        let about = command.get_about().map(ToString::to_string);
        page.item(&bold(command.get_name()), &about.unwrap_or_default());
    }
    page.section("FLUZO PI OPTIONS");
    page.text(
        "Options, files and messages may be mixed; what follows -- is a message. An argument that begins with @ names a file that becomes part of the first message.",
    );
    options(&mut page);
    if let Some(bugfix) = command
        .find_subcommand("demo")
        .and_then(|demo| demo.find_subcommand("bugfix"))
    {
        page.section("FLUZO DEMO BUGFIX OPTIONS");
        bugfix
            .get_arguments()
            .for_each(|arg| argument(&mut page, arg));
    }
    for (title, rows) in reference::sections() {
        page.section(&title.to_uppercase());
        for (name, meaning) in rows {
            page.item(&bold(name), &meaning);
        }
    }
    page.0
}

fn options(page: &mut Page) {
    let mut group = "";
    for flag in FLAGS {
        if flag.group != group {
            group = flag.group;
            page.line(&format!(".SS {}", escaped(group)));
        }
        page.item(&spelled(flag), flag.help);
    }
}

fn argument(page: &mut Page, arg: &clap::Arg) {
    let mut name = bold(&format!("--{}", arg.get_long().unwrap_or_default()));
    for value in arg.get_value_names().unwrap_or_default() {
        name.push_str(&format!(" \\fI{}\\fR", escaped(value)));
    }
    let help = arg.get_help().map(ToString::to_string);
    page.item(&name, &help.unwrap_or_default());
}

fn spelled(flag: &Flag) -> String {
    let mut text = String::new();
    if let Some(short) = flag.short {
        text.push_str(&bold(&format!("-{short}")));
        text.push_str(", ");
    }
    text.push_str(&bold(&format!("--{}", flag.long)));
    match flag.takes {
        Takes::Nothing => {}
        Takes::Value(kind) => text.push_str(&format!(" \\fI{}\\fR", escaped(kind))),
        Takes::OptionalMessage => text.push_str(" [\\fIMESSAGE\\fR]"),
        Takes::OptionalSearch => text.push_str(" [\\fISEARCH\\fR]"),
    }
    text
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.0, "{line}");
    }

    fn section(&mut self, title: &str) {
        self.line(&format!(".SH {}", escaped(title)));
    }

    fn text(&mut self, text: &str) {
        self.line(&escaped(text));
    }

    fn item(&mut self, name: &str, text: &str) {
        self.line(&format!(".TP\n{name}\n{}", escaped(text)));
    }
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

/// Text that roff shows as it stands: a dot or an apostrophe at the beginning of a line
/// would be a request.
fn escaped(text: &str) -> String {
    let text = text
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_command_code_file_and_variable_is_on_the_page() {
        let page = page();
        for flag in FLAGS {
            assert!(
                page.contains(&format!("\n{}\n", spelled(flag))),
                "{}",
                flag.long
            );
        }
        for command in help::command().get_subcommands() {
            let name = bold(command.get_name());
            assert!(page.contains(&format!("\n{name}\n")), "{name}");
        }
        for option in ["\\-\\-scenario", "\\-\\-json", "\\-\\-keep"] {
            assert!(page.contains(&format!("\n\\fB{option}\\fR")), "{option}");
        }
        for (title, rows) in reference::sections() {
            assert!(page.contains(&format!("\n.SH {}\n", title.to_uppercase())));
            for (name, _) in rows {
                assert!(page.contains(&format!("\n{}\n", bold(name))), "{name}");
            }
        }
    }

    #[test]
    fn it_is_one_page_that_refers_to_no_other() {
        let page = page();
        assert_eq!(page.matches("\n.SH NAME\n").count(), 1);
        assert!(page.starts_with(".TH "));
        assert_eq!(page.matches(".TH ").count(), 1);
        assert!(!page.contains("(1)"), "{page}");
        let requests = [".TH", ".SH", ".SS", ".TP", ".B ", ".br"];
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(requests.iter().any(|r| line.starts_with(r)), "{line}");
        }
    }

    #[test]
    fn special_characters_are_shown_as_they_stand() {
        let rows = [
            (".pi", "\\&.pi"),
            ("-a", "\\-a"),
            ("it's", "it\\(aqs"),
            ("a\\b", "a\\eb"),
        ];
        for (text, roff) in rows {
            assert_eq!(escaped(text), roff);
        }
    }
}
