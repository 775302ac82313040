//! The agent loop, effect traits, the tool trait, the gate and its permit, queues.
