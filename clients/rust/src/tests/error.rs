use crate::{ClaimError, error::short_name};

#[test]
fn names_of_error_types_have_a_path_where_the_name_alone_says_nothing() {
    assert_eq!(short_name::<std::num::ParseIntError>(), "ParseIntError");
    assert_eq!(short_name::<Vec<ClaimError>>(), "Vec");
    assert_eq!(short_name::<std::fmt::Error>(), "core::fmt::Error");
}
