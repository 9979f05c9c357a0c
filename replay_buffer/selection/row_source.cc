#include "ding_worker/replay_buffer/selection/row_source.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {
namespace {

class RowSource : public DrawSource {
 public:
  using DrawSource::DrawSource;

  int64_t size() const override { return store().size(); }
  absl::Status Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) override {
    DING_RETURN_IF_ERROR(reader().Start(request.size, draw));
    return Select(request, (*draw)->ids());
  }

 protected:
  bool RanksToIds(absl::Span<int64_t> ranks) const override {
    const int64_t begin = store().begin_id();
    uint64_t largest = 0;  // InRange(), in the same pass
    for (int64_t& rank : ranks) {
      largest = std::max(largest, static_cast<uint64_t>(rank));
      rank += begin;
    }
    return largest < static_cast<uint64_t>(size());
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<DrawSource>> RowDraws::MakeSource(std::shared_ptr<RowStore> store) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<TransitionReader> reader,
                        TransitionReader::Create(std::move(store), nstep_, gamma_));
  return std::make_unique<RowSource>(std::move(reader));
}

}  // namespace ding
