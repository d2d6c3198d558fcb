//! Sums with exact subtraction.

use crate::inventory::requests::Requests;

/// Sum of the requests of pods, in 128 bits to prevent an overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    cpu: i128,
    memory: i128,
    ephemeral: i128,
    gpus: [i128; 2],
    pub(super) pods: i64,
}

impl Sums {
    /// Adds the requests of a pod. A negative `sign` subtracts the requests.
    pub(super) fn add(&mut self, pod: &Requests, sign: i64) {
        let signed = |amount: i64| i128::from(amount) * i128::from(sign);
        self.cpu += signed(pod.cpu);
        self.memory += signed(pod.memory);
        self.ephemeral += signed(pod.ephemeral);
        for (sum, devices) in self.gpus.iter_mut().zip(pod.gpus) {
            *sum += signed(devices);
        }
        self.pods += sign;
    }

    pub(super) const fn ephemeral(&self) -> i128 {
        self.ephemeral
    }

    /// Returns the sums, limited to the range from 0 to `i64::MAX`.
    pub(super) fn amounts(&self) -> Requests {
        Requests {
            cpu: clamp(self.cpu),
            memory: clamp(self.memory),
            ephemeral: clamp(self.ephemeral),
            gpus: self.gpus.map(clamp),
        }
    }
}

pub(super) fn clamp(amount: i128) -> i64 {
    i64::try_from(amount.max(0)).unwrap_or(i64::MAX)
}
