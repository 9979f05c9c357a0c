#include "ding_worker/policy/continuous/row_noise.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "ding_worker/base/check.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/data/columns.h"

namespace ding {
namespace {

constexpr Rng::Purpose kPurpose("policy/learn");
constexpr Rng::Purpose kKeys("policy/learn/keys");
constexpr float kTwoPi = 6.2831853f;
constexpr float kUnit = 0x1.0p-24f;

uint64_t Mix(uint64_t key, uint64_t word) {
  key = (key ^ word) * 0x9E3779B97F4A7C15;
  return key ^ (key >> 32);
}

// Mixes the rows of a column into their keys.
void MixColumn(const std::byte* column, int64_t row_bytes, absl::Span<uint64_t> keys) {
  for (uint64_t& key : keys) {
    for (int64_t at = 0; at < row_bytes; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, column + at, static_cast<size_t>(std::min<int64_t>(8, row_bytes - at)));
      key = Mix(key, word);
    }
    column += row_bytes;
  }
}

void MixColumns(const ColumnsView& columns, absl::Span<uint64_t> keys) {
  for (int field = 0; field < columns.spec().size(); ++field) {
    MixColumn(columns.raw_column(field), columns.spec().row_bytes(field), keys);
  }
}

}  // namespace

void RowNoise::Draw(const TransitionView& batch, int64_t train_iter, absl::Span<float> first,
                    absl::Span<float> second) {
  const auto rows = static_cast<size_t>(batch.obs.rows());
  DING_CHECK(rows > 0 && first.size() == second.size() && first.size() % rows == 0)
      << first.size() << " and " << second.size() << " numbers for " << rows << " rows";
  keys_.assign(rows, seed_);
  MixColumns(batch.obs, absl::MakeSpan(keys_));
  MixColumns(batch.action, absl::MakeSpan(keys_));
  MixColumn(reinterpret_cast<const std::byte*>(batch.reward.data()), sizeof(float),
            absl::MakeSpan(keys_));
  const size_t width = first.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    Rng rng(keys_[row], kPurpose, static_cast<uint64_t>(train_iter));
    for (size_t at = row * width; at < (row + 1) * width; ++at) {
      // Box and Muller 1958, from two uniform numbers of 24 bits; the first is never 0.
      const float u = (static_cast<float>(rng.Next32() >> 8) + 0.5f) * kUnit;
      const float angle = kTwoPi * kUnit * static_cast<float>(rng.Next32() >> 8);
      const float radius = std::sqrt(-2 * std::log(u));
      first[at] = radius * std::cos(angle);
      second[at] = radius * std::sin(angle);
    }
  }
}

void RowNoise::DrawKeys(int64_t train_iter, uint32_t use, absl::Span<uint64_t> keys) const {
  DING_CHECK(keys.size() == keys_.size())
      << keys.size() << " keys for " << keys_.size() << " rows of the last draw";
  const uint64_t index = static_cast<uint64_t>(train_iter) << 32 | use;
  for (size_t row = 0; row < keys.size(); ++row) {
    keys[row] = Rng::DeriveSeed(keys_[row], kKeys, index);
  }
}

}  // namespace ding
