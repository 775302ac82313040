//! Registry of settings: type, default, description and where a value came from; pure.
