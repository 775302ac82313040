//! What a front end may say and see: commands, events, snapshots.
