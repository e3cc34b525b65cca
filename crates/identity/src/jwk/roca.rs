//! RSA keys whose primes have the form that CVE-2017-15361 (ROCA) is about: they can be factored.
//!
//! A prime of an affected library is a power of 65537 modulo each of the first primes; so is the product of
//! two. For a random key that happens once in 2^27.

/// The primes whose product is the modulus of the smallest affected keys, but for 2.
const PRIMES: [u32; 38] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103,
    107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167,
];

/// Whether a modulus, in bytes with the highest first, has the form.
pub(super) fn is_affected(modulus: &[u8]) -> bool {
    PRIMES.iter().all(|&prime| {
        let rest = modulus.iter().fold(0, |rest, &byte| ((rest << 8) | u32::from(byte)) % prime);
        is_power(rest, prime)
    })
}

/// Whether a number is a power of 65537 modulo a prime.
fn is_power(number: u32, prime: u32) -> bool {
    let mut power = 1;
    for _ in 0..prime {
        if power == number {
            return true;
        }
        power = power * (65537 % prime) % prime;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_the_generator() {
        assert!(is_power(1, 3) && is_power(2, 3) && !is_power(0, 3));
        // 65537 is -1 modulo 11.
        assert!((0..11).filter(|&number| is_power(number, 11)).eq([1, 10]));
        assert!(is_affected(&[1]) && is_affected(&65537u32.to_be_bytes()) && !is_affected(&[2]));
    }
}
