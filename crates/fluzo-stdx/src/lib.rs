//! Small shared pieces without I/O: ids, time stamps, size texts, truncation
//! and terminal-text sanitising.

pub mod ids;
pub mod sanitize;
pub mod size;
pub mod time;
pub mod truncate;
