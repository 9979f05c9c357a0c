#include "ding_worker/replay_buffer/selection/selector.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "ding_worker/base/check.h"
#include "ding_worker/replay_buffer/selection/fill_random.h"

namespace ding {
namespace {

void CheckRange(int64_t n) {
  DING_CHECK(n >= 1 && n < int64_t{1} << 32) << "draw from " << n << " indices";
}

// Fills `out` with numbers in [0, n), [0, n + step), [0, n + 2 step), ..., each without bias from 32
// random bits (Lemire 2019): half the random bits of Rng::UniformInt, and rows are never so many.
void DrawBelow(uint32_t n, uint32_t step, Rng* rng, absl::Span<int64_t> out) {
  uint32_t bits[256];
  for (; !out.empty(); n += step * std::size(bits)) {
    const size_t size = std::min(out.size(), std::size(bits));
    FillRandom(rng, absl::MakeSpan(bits, size));
    int64_t* const drawn = out.data();
    const auto range = [n, step](size_t i) { return n + step * static_cast<uint32_t>(i); };
    bool biased = false;
    for (size_t i = 0; i < size; ++i) {
      const uint64_t product = uint64_t{bits[i]} * range(i);
      drawn[i] = static_cast<int64_t>(product >> 32);
      biased |= static_cast<uint32_t>(product) < range(i);
    }
    for (size_t i = 0; biased && i < size; ++i) {  // Rare, unless the ranges are large.
      uint64_t product = uint64_t{bits[i]} * range(i);
      if (static_cast<uint32_t>(product) >= range(i)) continue;
      const uint32_t threshold = -range(i) % range(i);
      while (static_cast<uint32_t>(product) < threshold) {
        product = uint64_t{rng->Next32()} * range(i);
      }
      drawn[i] = static_cast<int64_t>(product >> 32);
    }
    out.remove_prefix(size);
  }
}

}  // namespace

void UniformDraw::WithReplacement(int64_t n, Rng* rng, absl::Span<int64_t> out) {
  CheckRange(n);
  DrawBelow(static_cast<uint32_t>(n), /*step=*/0, rng, out);
}

void UniformDraw::WithoutReplacement(int64_t n, Rng* rng, absl::Span<int64_t> out) {
  CheckRange(n);
  const auto count = static_cast<int64_t>(out.size());
  DING_CHECK(count <= n) << count << " different indices of " << n;
  // Index n - count + i joins the pool with step i, so it cannot have been drawn before.
  const int64_t first_last = n - count;
  DrawBelow(static_cast<uint32_t>(first_last + 1), /*step=*/1, rng, out);
  // Mostly empty, so that the first look nearly always finds a free place.
  int log2_size = 3;
  while (int64_t{1} << log2_size < 8 * count) ++log2_size;
  table_.resize(size_t{1} << log2_size);
  std::memset(table_.data(), 0, table_.size() * sizeof(table_[0]));
  uint32_t* const table = table_.data();
  const uint64_t mask = table_.size() - 1;
  const auto insert = [=](int64_t index) {
    // Fibonacci hashing: the high bits of a product with 2^64 / golden ratio.
    uint64_t place = (static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15) >> (64 - log2_size);
    const auto entry = static_cast<uint32_t>(index + 1);
    for (; table[place] != 0; place = (place + 1) & mask) {
      if (table[place] == entry) return false;
    }
    table[place] = entry;
    return true;
  };
  int64_t* const drawn = out.data();
  for (int64_t i = 0; i < count; ++i) {
    if (insert(drawn[i])) continue;
    drawn[i] = first_last + i;
    insert(drawn[i]);
  }
}

}  // namespace ding
