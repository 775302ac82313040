//! Operations over the effects, journal, automatic and manual drive, spans.
