//! A scripted provider server that is strict about what it accepts.
