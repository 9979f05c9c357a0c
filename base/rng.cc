#include "ding_worker/base/rng.h"

#include <cmath>

namespace ding {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr double kTwoPi = 6.283185307179586476925286766559;

// Finalizer of SplitMix64 (Steele, Lea and Flood 2014): every bit of the input changes every bit of
// the output.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t Rng::DeriveSeed(uint64_t seed, absl::string_view purpose, uint64_t index) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a over the name, then mixed with the two numbers.
  for (const char c : purpose) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return Mix(Mix(Mix(seed) ^ hash) ^ index);
}

Rng::Rng(uint64_t seed, absl::string_view purpose, uint64_t index)
    : key_(DeriveSeed(seed, purpose, index)) {}

void Rng::Refill() {
  uint32_t x0 = static_cast<uint32_t>(next_block_);
  uint32_t x1 = static_cast<uint32_t>(next_block_ >> 32);
  uint32_t x2 = 0;
  uint32_t x3 = 0;
  uint32_t k0 = static_cast<uint32_t>(key_);
  uint32_t k1 = static_cast<uint32_t>(key_ >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = uint64_t{kMultiplier0} * x0;
    const uint64_t p1 = uint64_t{kMultiplier1} * x2;
    const uint32_t y0 = static_cast<uint32_t>(p1 >> 32) ^ x1 ^ k0;
    const uint32_t y2 = static_cast<uint32_t>(p0 >> 32) ^ x3 ^ k1;
    x1 = static_cast<uint32_t>(p1);
    x3 = static_cast<uint32_t>(p0);
    x0 = y0;
    x2 = y2;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  block_ = {x0, x1, x2, x3};
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
  if (used < 4 && next_block_ > 0) {  // The current block was made from the counter before.
    --next_block_;
    Refill();
  }
  used_ = used;
}

}  // namespace ding
