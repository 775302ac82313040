//! What is known without configuration, as data: hosts, that is providers with their endpoints
//! and key variables, and their models. Pure: nothing here reads the environment, a file or the network.

mod host;
mod hosts;
mod models;
mod template;

pub use host::{Host, KeySending};
pub use hosts::{EXCEPTIONS, HOSTS, dialect, exception, host};
pub use models::{ModelRow, model, models, models_of};
pub use template::{MissingVariable, fill};
