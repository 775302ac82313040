//! Wire dialects of model servers over HTTP.
