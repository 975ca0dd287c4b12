//! Who calls, and what they may do: credentials to a principal, and a principal to its rights.
//!
//! It is the shape of docs/contract.md, section 14. Nothing here reads a file or waits: texts come in, and what is in
//! force is replaced as a whole.

mod authority;
mod certificate;
mod door;
mod forwarded;
mod guard;
pub mod jwt;
mod key_kind;
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
mod wanted;

pub use self::authority::ClientAuthority;
pub use self::certificate::Wrong;
pub use self::door::Door;
pub use self::guard::{Guard, Trust};
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
pub use self::wanted::Wanted;

/// The principal of everybody where nobody is authenticated.
pub const ANONYMOUS: &str = "anonymous";
/// How far the clocks of who signs credentials and of who judges them may differ, in seconds.
pub const LEEWAY: u64 = 60;
/// The longest name of a principal, in bytes.
pub const PRINCIPAL_BYTES_MAX: usize = 512;
