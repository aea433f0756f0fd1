//! The ids of programs in the cache of Paddle's executors. Paddle finds an executor by the key `65 * id + scope
//! address / 4`, a 64-bit sum. It never compares id and scope themselves, and the executor stays in the cache after
//! its program and scope have gone. With consecutive ids, the keys of programs collide whose scopes lie 260 bytes
//! apart: one program then runs the other's executor, in a scope that no longer exists.
//!
//! So ids are chosen such that `65 * id` are consecutive multiples of 2^64 / golden ratio, as in Fibonacci hashing
//! (Knuth, The Art of Computer Programming 3, section 6.4): `n` of these products are at least `2^64 / 3n` apart. Up to
//! 80,000 programs, that is more than the range of all addresses of a process.

use std::sync::atomic::{AtomicU64, Ordering};

/// The factor of the id in Paddle's key.
const FACTOR: u64 = 65;

/// 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns an id that no other program of this process has.
pub(crate) fn new() -> i64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    i64::from_ne_bytes(of(NEXT.fetch_add(1, Ordering::Relaxed)).to_ne_bytes())
}

/// `FACTOR * of(n) == STEP * n`
const fn of(n: u64) -> u64 {
    n.wrapping_mul(STEP).wrapping_mul(inverse(FACTOR))
}

/// Inverse of an odd number modulo 2^64, by Newton's method, which doubles the number of correct bits each time.
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
