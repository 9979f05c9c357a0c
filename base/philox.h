// The block function of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011): a bijection of 128 bits under a key of 64 bits. For ding::Rng only.
//
// Threads: thread-safe.
#ifndef DING_WORKER_BASE_PHILOX_H_
#define DING_WORKER_BASE_PHILOX_H_

#include <array>
#include <cstdint>

namespace ding::internal_base {

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

}  // namespace ding::internal_base

#endif  // DING_WORKER_BASE_PHILOX_H_
