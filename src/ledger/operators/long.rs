//! The few long operations at once, imports and bulk redrives, and whose they are.

use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::{Reason, Rejection};

/// How many one server carries out at once.
const MAX: usize = 5;
/// And how many of these are of one principal: whoever takes all that it may leaves a place for others.
const OF_ONE_MAX: usize = 4;

/// See the module. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct LongOperations {
    /// Whose they are: one name for each that is under way.
    under_way: Arc<Mutex<Vec<Box<str>>>>,
}

/// The right to carry out a long operation, until it is dropped.
pub struct LongPermit {
    of: LongOperations,
    principal: Box<str>,
}

impl LongOperations {
    /// # Errors
    /// `OVERLOADED`.
    pub(super) fn permit(&self, principal: &str) -> Result<LongPermit, Rejection> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let its_own = under_way.iter().filter(|one| ***one == *principal).count();
        let whose = if its_own >= OF_ONE_MAX {
            format!("{OF_ONE_MAX} imports and bulk redrives of one principal")
        } else if under_way.len() >= MAX {
            format!("{MAX} imports and bulk redrives")
        } else {
            under_way.push(principal.into());
            return Ok(LongPermit { of: self.clone(), principal: principal.into() });
        };
        let text = format!("{whose} are under way on this server already: try again later");
        Err(Rejection::new(Reason::Overloaded, text))
    }
}

impl Drop for LongPermit {
    fn drop(&mut self) {
        let mut under_way = self.of.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = under_way.iter().position(|one| *one == self.principal) {
            under_way.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_principal_leaves_a_place_for_others() {
        let all = LongOperations::default();
        let refused = |principal| all.permit(principal).err().map(|rejection| rejection.message);
        let mut held: Vec<_> = (0..OF_ONE_MAX).map(|_| all.permit("one").unwrap()).collect();
        let own = "4 imports and bulk redrives of one principal are under way on this server already: try again later";
        assert_eq!(refused("one").as_deref(), Some(own));
        held.push(all.permit("other").unwrap());
        let any = "5 imports and bulk redrives are under way on this server already: try again later";
        assert_eq!(refused("other").as_deref(), Some(any));
        assert_eq!(refused("third").as_deref(), Some(any));
        // The place of one that ended is for anybody again.
        held.remove(0);
        assert_eq!(refused("one"), None);
        assert_eq!(refused("third"), None);
        drop(held);
        assert!(all.under_way.lock().unwrap().is_empty());
    }
}
