//! The seven built-in tools: read, bash, edit, write, grep, find, ls.
//!
//! Tools reach files and processes only through the traits of `fluzo-exec`, and know
//! their limits only as values handed in. Texts that the model sees are pi's.

mod args;
mod bash;
mod bash_live;
mod bash_output;
mod clean_text;
mod edit;
mod edit_apply;
mod edit_match;
mod edit_splice;
mod env;
mod file_change;
mod find;
mod folded;
mod grep;
mod image_block;
mod image_kind;
pub mod images;
mod line_diff;
mod ls;
mod name_order;
mod notices;
pub mod paths;
mod read;
mod read_lines;
pub mod registry;
mod searching;
mod shown;
mod text_form;
pub mod user_shell;
mod write;

pub use bash::BashTool;
pub use edit::EditTool;
pub use env::{BashEnvironment, SpillPolicy, ToolEnv, ToolLimits};
pub use find::FindTool;
pub use grep::GrepTool;
pub use ls::LsTool;
pub use read::ReadTool;
pub use write::WriteTool;
