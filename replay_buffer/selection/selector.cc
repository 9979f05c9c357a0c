#include "ding_worker/replay_buffer/selection/selector.h"

#include <algorithm>

#include "ding_worker/base/check.h"

namespace ding {
namespace {

// Uniform in [0, n) from 32 random bits, without bias (Lemire 2019): half the random bits of
// Rng::UniformInt, and rows are never so many.
inline int64_t UniformBelow(Rng* rng, uint64_t n) {
  uint64_t product = uint64_t{rng->Next32()} * n;
  if (static_cast<uint32_t>(product) < n) {
    const uint64_t threshold = (uint64_t{1} << 32) % n;
    while (static_cast<uint32_t>(product) < threshold) product = uint64_t{rng->Next32()} * n;
  }
  return static_cast<int64_t>(product >> 32);
}

void CheckRange(int64_t n) {
  DING_CHECK(n >= 1 && n < int64_t{1} << 32) << "draw from " << n << " indices";
}

}  // namespace

void UniformDraw::WithReplacement(int64_t n, Rng* rng, absl::Span<int64_t> out) {
  CheckRange(n);
  for (int64_t& index : out) index = UniformBelow(rng, static_cast<uint64_t>(n));
}

void UniformDraw::WithoutReplacement(int64_t n, Rng* rng, absl::Span<int64_t> out) {
  CheckRange(n);
  const auto count = static_cast<int64_t>(out.size());
  DING_CHECK(count <= n) << count << " different indices of " << n;
  // Mostly empty, so that the first look nearly always finds a free place.
  int bits = 2;
  while (int64_t{1} << bits < 4 * count) ++bits;
  table_.assign(size_t{1} << bits, 0);
  table_shift_ = 64 - bits;
  for (int64_t i = 0; i < count; ++i) {
    // Index `last` joins the pool with this step, so it cannot have been drawn before.
    const int64_t last = n - count + i;
    const int64_t drawn = UniformBelow(rng, static_cast<uint64_t>(last + 1));
    if (Insert(drawn)) {
      out[i] = drawn;
    } else {
      Insert(last);
      out[i] = last;
    }
  }
}

bool UniformDraw::Insert(int64_t index) {
  // Fibonacci hashing: the high bits of a product with 2^64 / golden ratio.
  uint64_t slot = (static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15) >> table_shift_;
  const uint64_t mask = table_.size() - 1;
  const auto entry = static_cast<uint32_t>(index + 1);
  for (; table_[slot] != 0; slot = (slot + 1) & mask) {
    if (table_[slot] == entry) return false;
  }
  table_[slot] = entry;
  return true;
}

}  // namespace ding
