//! Damages files at random: the same damage for the same seed.

use super::random::Random;

/// Numbers at the edges of what counts, lengths and offsets can be.
const EDGES: [u64; 12] = [
    0,
    1,
    5,
    31,
    65_536,
    u32::MAX as u64,
    1 << 32,
    1 << 42,
    1 << 62,
    1 << 63,
    u64::MAX - 31,
    u64::MAX,
];

/// `bytes` with one to four places damaged, most of them in the first `header` bytes.
pub fn mutate(bytes: &[u8], header: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(4) {
        let range = if random.below(8) == 0 {
            bytes.len()
        } else {
            header.min(bytes.len())
        };
        if range == 0 {
            break;
        }
        let at = random.below(range);
        match random.below(7) {
            0 => bytes[at] = random.bits() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let len = bytes.len().min(at + 8) - at;
                bytes[at..at + len].copy_from_slice(&edge[..len]);
            }
            3 => {
                let edge = (EDGES[random.below(EDGES.len())] as u32).to_le_bytes();
                let len = bytes.len().min(at + 4) - at;
                bytes[at..at + len].copy_from_slice(&edge[..len]);
            }
            4 => bytes.truncate(at),
            5 => {
                let end = at + random.below(64).min(bytes.len() - at);
                bytes.drain(at..end);
            }
            _ => {
                let copy = bytes[at..bytes.len().min(at + 40)].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}
