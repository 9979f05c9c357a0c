// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011).
//
// A stream is named by (seed, purpose, index). Streams of different names are independent, in
// whatever order they are created and used. The whole state of a stream is three words, so that it
// is cheap to save and to restore. The sequence is the same on every platform; this project does
// not use the std:: distributions, because their results differ between platforms. Shuffle() below
// puts values into a random order.
//
// Ownership: a component owns its streams; two components never share one.
// Threads:   thread-compatible.
//
// Example:
//   Rng rng(seed, "collect/epsilon", /*index=*/0);
//   if (rng.Uniform() < epsilon) action = rng.UniformInt(action_count);
#ifndef DING_WORKER_BASE_RNG_H_
#define DING_WORKER_BASE_RNG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ding {

class Rng {
 public:
  // The state to save in order to continue later with the same numbers: the key, the next block,
  // and how many numbers of the current block are used.
  using State = std::array<uint64_t, 3>;

  // The purpose of a stream, the second part of its name. A constexpr one costs nothing at run
  // time:
  //   static constexpr Rng::Purpose kStart("env/start");
  class Purpose {
   public:
    template <typename Text,
              typename = std::enable_if_t<std::is_convertible_v<const Text&, absl::string_view>>>
    constexpr Purpose(const Text& text)  // NOLINT: a text is a purpose.
        : hash_(Fnv1a(text)) {}

   private:
    friend class Rng;
    static constexpr uint64_t Fnv1a(absl::string_view text) {
      uint64_t hash = 0xCBF29CE484222325;
      for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
      return hash;
    }

    uint64_t hash_;
  };

  Rng(uint64_t seed, Purpose purpose, uint64_t index = 0)
      : key_(DeriveSeed(seed, purpose, index)) {}

  // Uniform over all values of the type.
  uint32_t Next32() {
    if (used_ == 4) Refill();
    return block_[used_++];
  }
  uint64_t Next64() {
    const uint64_t high = Next32();
    return high << 32 | Next32();
  }

  // Uniform in [0, 1), with 53 random bits.
  double Uniform() { return static_cast<double>(Next64() >> 11) * 0x1.0p-53; }
  // Uniform in [low, high).
  double Uniform(double low, double high) { return low + (high - low) * Uniform(); }
  // Uniform in [0, n), without bias (Lemire 2019). n >= 1.
  uint64_t UniformInt(uint64_t n);
  // Standard normal (Box and Muller 1958; uses two uniforms per call).
  double Normal();

  State state() const { return {key_, next_block_, used_}; }
  // Continues where `state` was taken. Any three words are a valid state.
  void set_state(const State& state);

  // The seed of stream (seed, purpose, index), for code that needs a seed instead of a stream.
  static uint64_t DeriveSeed(uint64_t seed, Purpose purpose, uint64_t index = 0) {
    return Mix(Mix(Mix(seed) ^ purpose.hash_) ^ index);
  }

 private:
  // The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every bit of the input changes every
  // bit of the output.
  static uint64_t Mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  void Refill();

  uint64_t key_;
  uint64_t next_block_ = 0;
  uint32_t used_ = 4;
  std::array<uint32_t, 4> block_{};
};

// Puts `values` into a random order, drawn from `rng`. Every order is equally likely (Fisher and
// Yates), and the same stream gives the same order on every platform.
template <typename T>
void Shuffle(absl::Span<T> values, Rng* rng) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[rng->UniformInt(i)]);
}

namespace internal_base {

// The block function of Philox4x32-10: a bijection of 128 bits under a key of 64 bits. For Rng
// only.
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

}  // namespace internal_base
}  // namespace ding

#endif  // DING_WORKER_BASE_RNG_H_
