#include "ding_worker/interaction/grpc/connection_bounds.h"

#include <algorithm>

namespace ding {
namespace {

constexpr int64_t kLeastReserve = 64;
constexpr int64_t kMaxNewcomers = 256;
constexpr int64_t kMaxProven = 4096;

}  // namespace

ConnectionBounds ConnectionBounds::Within(int64_t descriptor_limit) {
  const int64_t reserve =
      std::min(std::max(kLeastReserve, descriptor_limit / 4), descriptor_limit / 2);
  const int64_t left = descriptor_limit - reserve;
  const int64_t newcomers = std::clamp<int64_t>(left / 2, 2, kMaxNewcomers);
  ConnectionBounds bounds;
  bounds.silent = newcomers / 2;
  bounds.unproven = newcomers / 2;
  bounds.proven = std::clamp<int64_t>(left - newcomers, 1, kMaxProven);
  return bounds;
}

bool CallAllowance::Take(int64_t calls, int64_t nanos) {
  const double grown = 1e-9 * static_cast<double>(nanos - last_nanos_) * kPerSecond;
  left_ = std::min<double>(kAtOnce, left_ + grown) - static_cast<double>(calls);
  last_nanos_ = nanos;
  return left_ >= 0;
}

}  // namespace ding
