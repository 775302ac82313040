//! Session entries, tree, context building, migrations, the JSONL and memory stores.
