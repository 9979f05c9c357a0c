#include "ding_worker/coordinator/state/buffer_chunks.h"

namespace ding {

void BufferChunks::Add(absl::Span<const int64_t> chunks) {
  for (const int64_t chunk : chunks) chunks_.emplace(chunk, State::kHeld);
  added_ += static_cast<int64_t>(chunks.size());
}

void BufferChunks::Forget(absl::Span<const int64_t> chunks) {
  for (const int64_t chunk : chunks) {
    chunks_.erase(chunk);
    if (bad_->contains(chunk)) MutableBad()->erase(chunk);
  }
}

void BufferChunks::Leave(absl::Span<const int64_t> chunks) {
  for (const int64_t chunk : chunks) {
    const auto found = chunks_.find(chunk);
    if (found == chunks_.end()) continue;
    if (found->second == State::kBad) {
      chunks_.erase(found);
      MutableBad()->erase(chunk);
    } else {
      found->second = State::kLeft;
      left_.push_back({chunk, draws_});
    }
  }
}

BufferChunks::Marked BufferChunks::MarkBad(int64_t chunk) {
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return Marked::kUnknown;
  switch (found->second) {
    case State::kHeld:
      found->second = State::kBad;
      MutableBad()->insert(chunk);
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

std::vector<int64_t> BufferChunks::TakeDeletable() {
  std::vector<int64_t> chunks;
  while (!left_.empty() && (unread_.empty() || unread_.begin()->second > left_.front().draws)) {
    chunks.push_back(left_.front().chunk);
    chunks_.erase(left_.front().chunk);
    left_.pop_front();
  }
  return chunks;
}

ChunkSet* BufferChunks::MutableBad() {
  if (bad_.use_count() > 1) bad_ = std::make_shared<ChunkSet>(*bad_);
  return bad_.get();
}

}  // namespace ding
