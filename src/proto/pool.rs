//! The descriptors of the package, for messages as JSON.

use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

use super::FILE_DESCRIPTOR_SET;

static POOL: LazyLock<Result<DescriptorPool, String>> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).map_err(|error| error.to_string()));

/// The descriptors of the package.
///
/// # Errors
/// The descriptors cannot be decoded.
pub fn pool() -> Result<&'static DescriptorPool, &'static str> {
    POOL.as_ref().map_err(String::as_str)
}
