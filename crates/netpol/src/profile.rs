//! Profiles of providers: data files that say which features a provider carries out in which version, and how.

mod embedded;
mod error;
mod format;
mod load;
mod own_kinds;
mod provider;
mod set;
mod tree;
mod version;

pub use error::{ProfileError, ProviderError};
pub use format::{
    CarriedOut, Checked, CheckedVersions, Detect, DetectOption, Direction, Limit, Profile, Row, Scope,
    SettingOption, Support, Unlisted, VersionFrom, When,
};
pub use own_kinds::OwnKinds;
pub use provider::{Answer, Circumstances, Provider, ProviderRef, UnknownSupport, UnknownVersion};
pub use set::Profiles;
pub use version::{Inside, InvalidRange, InvalidVersion, Version, VersionRange};
