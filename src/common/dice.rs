//! Random numbers from a seed, for walks of unit tests that can be repeated.

/// `SplitMix64`.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A pseudo-random number less than `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).expect("below a usize")
    }
}
