//! A session for people to read: one self-contained HTML page, the names that exported
//! files get, and what it takes to share one.
//!
//! Pure: sessions come through their store, pages go into any writer. Whatever a session
//! holds is text on the page; nothing of it is obeyed, loaded or followed.

mod entry;
mod escape;
mod highlight;
mod layout;
mod markdown;
mod media;
pub mod names;
pub mod page;
pub mod share;
mod tool;

pub use page::{ExportError, Extras, Report, write_page};
pub use share::{Gist, GistMaker, ShareError};
