#include "ding_worker/learner/comm/chunk_cache.h"

#include <iterator>

namespace ding {
namespace {

// The alignment of each column of a block.
constexpr int64_t kColumnBytes = 64;
// A block and a chunk beside their columns: members, reference counts, the entry in the cache, and
// what malloc() adds.
constexpr int64_t kBlockBytes = 320;
constexpr int64_t kEntryBytes = 384;

// The memory of a batch whose block has room for its rows only.
int64_t MemoryOf(const Batch& batch) {
  return batch.rows() * batch.spec().row_bytes() + batch.spec().size() * kColumnBytes + kBlockBytes;
}

}  // namespace

DecodedChunk::DecodedChunk(SegmentBatch decoded) : data(std::move(decoded)) {
  for (const Batch* const batch : {&data.rows, &data.final_obs}) {
    for (int i = 0; i < batch->spec().size(); ++i) columns.push_back(batch->view().raw_column(i));
  }
  segment_of_row.reserve(static_cast<size_t>(data.size()));
  for (size_t i = 0; i < data.segments.size(); ++i) {
    segment_of_row.insert(segment_of_row.end(), static_cast<size_t>(data.segments[i].length),
                          static_cast<int32_t>(i));
  }
}

int64_t DecodedChunk::bytes() const {
  return MemoryOf(data.rows) + MemoryOf(data.final_obs) +
         static_cast<int64_t>(segment_of_row.size() * sizeof(segment_of_row[0]) +
                              data.segments.capacity() * sizeof(Segment) +
                              columns.capacity() * sizeof(columns[0]) + sizeof(DecodedChunk)) +
         kEntryBytes;
}

void ChunkCache::Find(absl::Span<const int64_t> numbers, absl::Span<ChunkPtr> chunks) {
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto place = places_.find(numbers[i]);
    if (place == places_.end()) {
      chunks[i] = nullptr;
      continue;
    }
    entries_.splice(entries_.begin(), entries_, place->second);
    chunks[i] = place->second->second;
  }
}

void ChunkCache::Insert(int64_t number, ChunkPtr chunk) {
  // Evicted entries are destroyed after the lock is released.
  std::list<Entry> leaving;
  MutexLock lock(&mutex_);
  Count(*chunk, 1);
  entries_.emplace_front(number, std::move(chunk));
  const auto [place, is_new] = places_.try_emplace(number, entries_.begin());
  if (!is_new) {
    Count(*place->second->second, -1);
    leaving.splice(leaving.begin(), entries_, place->second);
    place->second = entries_.begin();
  }
  while ((bytes_ > max_bytes_ || rows_ > max_rows_) && entries_.size() > 1) {
    Count(*entries_.back().second, -1);
    places_.erase(entries_.back().first);
    leaving.splice(leaving.begin(), entries_, std::prev(entries_.end()));
  }
}

void ChunkCache::Count(const DecodedChunk& chunk, int sign) {
  bytes_ += sign * chunk.bytes();
  rows_ += sign * chunk.data.size();
}

int64_t ChunkCache::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace ding
