//! The Mersenne Twister MT19937 and the random permutation that PyTorch makes with it on the CPU.
//!
//! Whoever looks for a watermark draws the same permutations, so they must be the same to the bit.
//! Source: Matsumoto and Nishimura 1998; `torch.randperm` draws for place i of n a word modulo n − i and
//! exchanges place i with the one that far behind it.

const WORDS: usize = 624;
const MIDDLE: usize = 397;

/// The generator.
#[derive(Debug, Clone)]
pub(super) struct Mt19937 {
    state: Vec<u32>,
    next: usize,
}

impl Mt19937 {
    /// The generator of `seed`.
    pub fn new(seed: u32) -> Self {
        let mut state = vec![seed];
        for i in 1..WORDS as u32 {
            let last = state[i as usize - 1];
            let mixed = 1_812_433_253u32.wrapping_mul(last ^ (last >> 30));
            state.push(mixed.wrapping_add(i));
        }
        Self { state, next: WORDS }
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.renew();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9D2C_5680;
        word ^= (word << 15) & 0xEFC6_0000;
        word ^ (word >> 18)
    }

    fn renew(&mut self) {
        for i in 0..WORDS {
            let following = self.state[(i + 1) % WORDS];
            let joined = (self.state[i] & 0x8000_0000) | (following & 0x7FFF_FFFF);
            let odd = if joined & 1 == 1 { 0x9908_B0DF } else { 0 };
            self.state[i] = self.state[(i + MIDDLE) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// Puts the first `count` places of a random permutation of 0, 1, … `size` − 1 into `places`.
    pub fn permutation(&mut self, size: usize, count: usize, places: &mut Vec<u32>) {
        places.clear();
        places.extend(0..size as u32);
        // The last place has nothing left to choose.
        for i in 0..count.min(size.saturating_sub(1)) {
            let far = self.word() as usize % (size - i);
            places.swap(i, i + far);
        }
        places.truncate(count);
    }
}
