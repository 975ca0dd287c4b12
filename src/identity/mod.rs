//! Authentication and authorization: maps credentials to a principal, and a principal to its rights.
//!
//! Implements docs/contract.md, section 14. Nothing here reads files or blocks: callers pass texts, and the trust store is
//! replaced atomically.

mod authenticator;
mod authority;
mod certificate;
mod forwarded;
mod guard;
pub mod jwt;
mod key_kind;
mod key_refresh;
mod lint;
#[doc(hidden)]
pub mod mangled;
mod pattern;
mod peer;
mod principal;
mod proxies;
mod refused;
mod rights;
mod rpcs;
mod tls;
mod token_ends;
mod tokens;

pub use self::authenticator::Authenticator;
pub use self::authority::ClientAuthority;
pub use self::certificate::Wrong;
pub use self::guard::{Guard, Trust};
pub use self::key_refresh::KeyRefresh;
pub use self::lint::Warning;
pub use self::peer::Peer;
pub use self::principal::Identity;
pub use self::proxies::Proxies;
pub use self::refused::Refused;
pub use self::rights::{Grants, Right, Rights, Whose};
pub use self::rpcs::Rpc;
pub use self::tls::{OwnCertificate, Tls};
pub use self::token_ends::Ending;
pub use self::tokens::{NewToken, Tokens};

/// The principal of every caller if no source of identity is configured.
pub const ANONYMOUS: &str = "anonymous";
/// Leeway for clock differences between the issuer of a credential and this server, in seconds.
pub const LEEWAY: u64 = 60;
/// The longest name of a principal, in bytes.
pub const PRINCIPAL_BYTES_MAX: usize = 512;
