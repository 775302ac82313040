//! The parts of the screen that have a colour.

/// Declares the tokens once: variants, their names in theme files, and their order.
macro_rules! tokens {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// A part of the screen that has a colour.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names in theme files say it")]
        pub enum Token { $($variant),* }

        impl Token {
            /// All of them, in the order of the reference list.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Its name in theme files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

tokens! {
    Accent "accent", Border "border", BorderAccent "borderAccent", BorderMuted "borderMuted",
    Success "success", Error "error", Warning "warning", Muted "muted", Dim "dim", Text "text",
    ThinkingText "thinkingText",
    SelectedBg "selectedBg", UserMessageBg "userMessageBg", CustomMessageBg "customMessageBg",
    ToolPendingBg "toolPendingBg", ToolSuccessBg "toolSuccessBg", ToolErrorBg "toolErrorBg",
    UserMessageText "userMessageText", CustomMessageText "customMessageText",
    CustomMessageLabel "customMessageLabel", ToolTitle "toolTitle", ToolOutput "toolOutput",
    MdHeading "mdHeading", MdLink "mdLink", MdLinkUrl "mdLinkUrl", MdCode "mdCode",
    MdCodeBlock "mdCodeBlock", MdCodeBlockBorder "mdCodeBlockBorder", MdQuote "mdQuote",
    MdQuoteBorder "mdQuoteBorder", MdHr "mdHr", MdListBullet "mdListBullet",
    ToolDiffAdded "toolDiffAdded", ToolDiffRemoved "toolDiffRemoved",
    ToolDiffContext "toolDiffContext",
    SyntaxComment "syntaxComment", SyntaxKeyword "syntaxKeyword",
    SyntaxFunction "syntaxFunction", SyntaxVariable "syntaxVariable",
    SyntaxString "syntaxString", SyntaxNumber "syntaxNumber", SyntaxType "syntaxType",
    SyntaxOperator "syntaxOperator", SyntaxPunctuation "syntaxPunctuation",
    ThinkingOff "thinkingOff", ThinkingMinimal "thinkingMinimal", ThinkingLow "thinkingLow",
    ThinkingMedium "thinkingMedium", ThinkingHigh "thinkingHigh", ThinkingXhigh "thinkingXhigh",
    BashMode "bashMode",
}
