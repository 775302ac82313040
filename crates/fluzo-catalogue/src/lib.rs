//! What is known without configuration: hosts, that is providers with their endpoints and
//! key variables, as data. Pure: nothing here reads the environment, a file or the network.

mod host;
mod hosts;
mod template;

pub use host::{Host, KeySending};
pub use hosts::{EXCEPTIONS, HOSTS, dialect, exception, host};
pub use template::{MissingVariable, fill};
