//! File-system, search and process traits and their plain implementations; owner of std::fs and Command.
