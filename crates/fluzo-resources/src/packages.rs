//! Packages: where they come from, where they are installed, and what they bring.
//!
//! Nothing here fetches or writes. Files are read through [`fluzo_exec::FileSystem`].

mod brought;
mod contents;
mod entry;
mod manifest;
mod source;

pub use brought::{Brought, brought};
pub use contents::{ContentProblem, Contents, LARGEST_WALK, contents};
pub use entry::{EntryError, Filters, PackageEntry, configured, position, read_entries};
pub use manifest::{Manifest, ManifestError, PackagePart};
pub use source::{Base, GitSource, PackageSource, SourceError, absolute, relative};
