//! What a tool call touches and whether it may: accesses, decisions, policies; pure.
