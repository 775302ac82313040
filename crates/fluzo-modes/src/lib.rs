//! Front ends without a terminal: print, JSON, RPC.
