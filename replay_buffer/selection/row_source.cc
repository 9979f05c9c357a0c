#include "ding_worker/replay_buffer/selection/row_source.h"

#include <algorithm>
#include <utility>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {
absl::Status RowSource::Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) {
  DING_RETURN_IF_ERROR(reader().Start(request.size, draw));
  return Select(request, (*draw)->ids());
}

bool RowSource::RanksToIds(absl::Span<int64_t> ranks) const {
  const int64_t begin = store().begin_id();
  uint64_t largest = 0;  // InRange(), in the same pass
  for (int64_t& rank : ranks) {
    largest = std::max(largest, static_cast<uint64_t>(rank));
    rank += begin;
  }
  return largest < static_cast<uint64_t>(size());
}

absl::StatusOr<std::unique_ptr<DrawSource>> RowDraws::MakeSource(std::shared_ptr<RowStore> store) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<TransitionReader> reader,
                        TransitionReader::Create(std::move(store), nstep_, gamma_));
  return std::make_unique<RowSource>(std::move(reader));
}

}  // namespace ding
