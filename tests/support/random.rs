//! Random numbers for tests: the same numbers for the same seed, everywhere.

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An index below `len`, which is not 0. The bias of the remainder does not matter to a test.
    pub fn below(&mut self, len: usize) -> usize {
        (self.bits() % len as u64) as usize
    }

    /// A number from -1 (included) to 1 (excluded).
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// `len` numbers from -1 to 1, times `scale`.
    pub fn values(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| scale * self.signed()).collect()
    }
}
