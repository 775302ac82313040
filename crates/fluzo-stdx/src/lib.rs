//! Small shared pieces without I/O: ids, time stamps, truncation, size texts, terminal-text sanitising.
