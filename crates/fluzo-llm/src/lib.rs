//! Messages, models, usage, the provider stream contract, agent events and their reducer.
