//! What every store must do, as one suite.
