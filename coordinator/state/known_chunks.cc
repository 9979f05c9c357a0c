#include "ding_worker/coordinator/state/known_chunks.h"

namespace ding {

void KnownChunks::Add(absl::Span<const int64_t> chunks) {
  for (const int64_t chunk : chunks) chunks_.emplace(chunk, State::kHeld);
  added_ += static_cast<int64_t>(chunks.size());
}

void KnownChunks::Forget(absl::Span<const int64_t> chunks) {
  for (const int64_t chunk : chunks) {
    chunks_.erase(chunk);
    if (bad_.erase(chunk) > 0) undrawable_.reset();
  }
}

std::vector<int64_t> KnownChunks::Leave(absl::Span<const int64_t> chunks) {
  std::vector<int64_t> stored;
  for (const int64_t chunk : chunks) {
    const auto found = chunks_.find(chunk);
    if (found == chunks_.end()) continue;
    if (found->second == State::kBad) {
      chunks_.erase(found);
      bad_.erase(chunk);
      undrawable_.reset();
    } else {
      found->second = State::kLeft;
      stored.push_back(chunk);
    }
  }
  return stored;
}

KnownChunks::Marked KnownChunks::MarkBad(int64_t chunk) {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return Marked::kUnknown;
  switch (found->second) {
    case State::kHeld:
      found->second = State::kBad;
      bad_.insert(chunk);
      undrawable_.reset();
      ++marked_;
      return Marked::kHeld;
    case State::kLeft:
      found->second = State::kLeftBad;
      ++marked_;
      return Marked::kLeft;
    case State::kBad:
    case State::kLeftBad:
      break;
  }
  return Marked::kUnknown;
}

std::shared_ptr<const ChunkSet> KnownChunks::undrawable() {
  if (bad_.empty()) return nullptr;
  if (undrawable_ == nullptr) undrawable_ = std::make_shared<const ChunkSet>(bad_);
  return undrawable_;
}

}  // namespace ding
