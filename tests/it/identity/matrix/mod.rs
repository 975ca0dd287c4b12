//! Two matrices over every RPC that the server offers: kinds of credentials × RPCs, and rights × RPCs × consumers.
//!
//! What each cell must answer is written from the text of docs/contract.md, section 14, and not from `src/identity`. The
//! RPCs are walked from the descriptors of the services, so that a new RPC without a row fails.

mod certificates;
mod credentials;
mod door;
mod malformed;
mod presented;
mod reflection;
mod requests;
mod rights;
mod rpcs;
mod wire;
