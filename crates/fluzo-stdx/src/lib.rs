//! Small shared pieces without I/O: error texts, ids, JSON objects that are changed in place, paths as texts,
//! time stamps, similar names, size texts, truncation and terminal-text sanitising.

pub mod error;
pub mod ids;
pub mod lexical;
pub mod raw_json;
pub mod sanitize;
pub mod similar;
pub mod size;
pub mod time;
pub mod truncate;
