//! The themes that are there without files.

use super::{Color, DARK, Export, LIGHT, Theme, Token};

/// A row: a part, its colour in the dark and in the light theme; `None` is the terminal's own.
type Row = (Token, Option<u32>, Option<u32>);

pub(super) fn themes() -> [Theme; 2] {
    [theme(DARK, |row| row.1), theme(LIGHT, |row| row.2)]
}

fn theme(name: &str, column: impl Fn(&Row) -> Option<u32>) -> Theme {
    let mut colors = [Color::Default; Token::COUNT];
    for row in ROWS {
        if let (Some(mixture), Some(color)) = (column(row), colors.get_mut(row.0 as usize)) {
            let [_, red, green, blue] = mixture.to_be_bytes();
            *color = Color::Rgb(red, green, blue);
        }
    }
    Theme {
        name: name.to_owned(),
        export: Export::default(),
        source: None,
        colors,
    }
}

const ROWS: &[Row] = &[
    (Token::Accent, Some(0x8abeb7), Some(0x5a8080)),
    (Token::Border, Some(0x5f87ff), Some(0x547da7)),
    (Token::BorderAccent, Some(0x00d7ff), Some(0x5a8080)),
    (Token::BorderMuted, Some(0x505050), Some(0xb0b0b0)),
    (Token::Success, Some(0xb5bd68), Some(0x588458)),
    (Token::Error, Some(0xcc6666), Some(0xaa5555)),
    (Token::Warning, Some(0xffff00), Some(0x9a7326)),
    (Token::Muted, Some(0x808080), Some(0x6c6c6c)),
    (Token::Dim, Some(0x666666), Some(0x767676)),
    (Token::Text, None, None),
    (Token::ThinkingText, Some(0x808080), Some(0x6c6c6c)),
    (Token::SelectedBg, Some(0x3a3a4a), Some(0xd0d0e0)),
    (Token::UserMessageBg, Some(0x343541), Some(0xe8e8e8)),
    (Token::CustomMessageBg, Some(0x2d2838), Some(0xede7f6)),
    (Token::ToolPendingBg, Some(0x282832), Some(0xe8e8f0)),
    (Token::ToolSuccessBg, Some(0x283228), Some(0xe8f0e8)),
    (Token::ToolErrorBg, Some(0x3c2828), Some(0xf0e8e8)),
    (Token::UserMessageText, None, None),
    (Token::CustomMessageText, None, None),
    (Token::CustomMessageLabel, Some(0x9a86c8), Some(0x7a55b5)),
    (Token::ToolTitle, None, None),
    (Token::ToolOutput, Some(0x808080), Some(0x6c6c6c)),
    (Token::MdHeading, Some(0xf0c674), Some(0x9a7326)),
    (Token::MdLink, Some(0x81a2be), Some(0x547da7)),
    (Token::MdLinkUrl, Some(0x666666), Some(0x767676)),
    (Token::MdCode, Some(0x8abeb7), Some(0x5a8080)),
    (Token::MdCodeBlock, Some(0xb5bd68), Some(0x588458)),
    (Token::MdCodeBlockBorder, Some(0x808080), Some(0x6c6c6c)),
    (Token::MdQuote, Some(0x808080), Some(0x6c6c6c)),
    (Token::MdQuoteBorder, Some(0x808080), Some(0x6c6c6c)),
    (Token::MdHr, Some(0x808080), Some(0x6c6c6c)),
    (Token::MdListBullet, Some(0x8abeb7), Some(0x588458)),
    (Token::ToolDiffAdded, Some(0xb5bd68), Some(0x588458)),
    (Token::ToolDiffRemoved, Some(0xcc6666), Some(0xaa5555)),
    (Token::ToolDiffContext, Some(0x808080), Some(0x6c6c6c)),
    (Token::SyntaxComment, Some(0x6a9955), Some(0x008000)),
    (Token::SyntaxKeyword, Some(0x569cd6), Some(0x0000ff)),
    (Token::SyntaxFunction, Some(0xdcdcaa), Some(0x795e26)),
    (Token::SyntaxVariable, Some(0x9cdcfe), Some(0x001080)),
    (Token::SyntaxString, Some(0xce9178), Some(0xa31515)),
    (Token::SyntaxNumber, Some(0xb5cea8), Some(0x098658)),
    (Token::SyntaxType, Some(0x4ec9b0), Some(0x267f99)),
    (Token::SyntaxOperator, Some(0xd4d4d4), Some(0x000000)),
    (Token::SyntaxPunctuation, Some(0xd4d4d4), Some(0x000000)),
    (Token::ThinkingOff, Some(0x505050), Some(0xb0b0b0)),
    (Token::ThinkingMinimal, Some(0x6e6e6e), Some(0x767676)),
    (Token::ThinkingLow, Some(0x5f87af), Some(0x547da7)),
    (Token::ThinkingMedium, Some(0x81a2be), Some(0x5a8080)),
    (Token::ThinkingHigh, Some(0xb294bb), Some(0x875f87)),
    (Token::ThinkingXhigh, Some(0xd183e8), Some(0x8b008b)),
    (Token::BashMode, Some(0xb5bd68), Some(0x588458)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_the_tokens() {
        let tokens: Vec<Token> = ROWS.iter().map(|row| row.0).collect();
        assert_eq!(tokens, Token::ALL);
    }
}
