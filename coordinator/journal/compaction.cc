#include "ding_worker/coordinator/journal/compaction.h"

#include <algorithm>

namespace ding {

bool LivePushes::Keeps(const JournalRecord& record) {
  if (!record.has_push() || !alive_(record.push().buffer_id())) return false;
  const auto& chunks = record.push().chunk();
  const auto gone = [this](int64_t chunk) { return removed_.count(chunk) > 0; };
  if (std::all_of(chunks.begin(), chunks.end(), gone)) return false;
  for (const int64_t chunk : chunks) {
    if (gone(chunk)) still_removed_.mutable_removed()->add_chunk(chunk);
  }
  return true;
}

}  // namespace ding
