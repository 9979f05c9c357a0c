#include "ding_worker/base/rng.h"

#include <cmath>

namespace ding {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

}  // namespace

void Rng::Refill() {
  block_ = internal_base::Philox4x32(
      {static_cast<uint32_t>(next_block_), static_cast<uint32_t>(next_block_ >> 32), 0, 0},
      {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  ++next_block_;
  used_ = 0;
}

uint64_t Rng::UniformInt(uint64_t n) {
  unsigned __int128 product = static_cast<unsigned __int128>(Next64()) * n;
  if (static_cast<uint64_t>(product) < n) {
    const uint64_t threshold = -n % n;
    while (static_cast<uint64_t>(product) < threshold) {
      product = static_cast<unsigned __int128>(Next64()) * n;
    }
  }
  return static_cast<uint64_t>(product >> 64);
}

double Rng::Normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));  // 1 - u is never 0.
  return radius * std::cos(kTwoPi * Uniform());
}

void Rng::set_state(const State& state) {
  key_ = state[0];
  next_block_ = state[1];
  const uint32_t used = static_cast<uint32_t>(state[2] > 4 ? 4 : state[2]);
  if (used < 4) {  // The current block was made from the previous counter, modulo 2^64.
    --next_block_;
    Refill();
  }
  used_ = used;
}

}  // namespace ding
