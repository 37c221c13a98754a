//! A pseudo-random number generator that is reproducible from a seed.

/// A SplitMix64 generator, which is small and sufficient for choosing faults.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number less than `bound`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn bits128(&mut self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.next())
    }
}

/// Returns the seed for this run and prints it. `POSTHASTE_SEED` overrides it to replay a failed run.
pub fn seed() -> u64 {
    let seed = std::env::var("POSTHASTE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_115);
    println!("seed {seed}: replay with POSTHASTE_SEED={seed}");
    seed
}
