//! The agent session: prompt assembly, models, session, commands; serves fluzo-protocol.
