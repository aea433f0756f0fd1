//! The numbers programs go by in the cache of Paddle's executors. An executor is found by `65 * id + scope address /
//! 4`, a sum in 64 bits that is never compared with what it was made of, and it stays after its program and its scope
//! have gone. Numbers given one after another fall together with scopes that lie 260 bytes apart: the one program then
//! runs the other's executor, in a scope that is no more.
//!
//! So the sums are laid out as a Fibonacci sequence (Knuth, The Art of Computer Programming 3, section 6.4): `n` of
//! them are at least `2^64 / 3n` apart, which up to 80,000 programs is more than all addresses of a process.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an id is multiplied by in the sum.
const FACTOR: u64 = 65;

/// 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number given to no other program of this process.
pub(crate) fn new() -> i64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    i64::from_ne_bytes(of(NEXT.fetch_add(1, Ordering::Relaxed)).to_ne_bytes())
}

/// `FACTOR * of(n) == STEP * n`
const fn of(n: u64) -> u64 {
    n.wrapping_mul(STEP).wrapping_mul(inverse(FACTOR))
}

/// Of an odd number, by Newton's method, which doubles the number of right bits each time.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses of a process have 48 bits, and are divided by 4.
    const ADDRESSES: u64 = 1 << 46;

    #[test]
    fn no_scopes_make_two_ids_one_executor() {
        let mut sums: Vec<_> = (1..=80_000).map(|n| of(n).wrapping_mul(FACTOR)).collect();
        sums.sort_unstable();
        let around = sums[0].wrapping_sub(*sums.last().expect("not empty"));
        let nearest = sums.windows(2).map(|pair| pair[1] - pair[0]).min().expect("several").min(around);
        assert!(nearest > ADDRESSES, "{nearest:#x}");
    }

    #[test]
    fn ids_differ() {
        assert_ne!(new(), new());
    }
}
