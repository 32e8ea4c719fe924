// Q4_K weights: blocks of nibbles with the scales of lib/k_scales.wgsl, five words for eight of them.

const RECORD: u32 = 5u;
