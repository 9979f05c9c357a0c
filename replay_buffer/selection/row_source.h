// Draws single rows: every row of the ring is a candidate. NaiveReplayBuffer draws in this way.
//
// Threads: as DrawKind.
#ifndef DING_WORKER_REPLAY_BUFFER_SELECTION_ROW_SOURCE_H_
#define DING_WORKER_REPLAY_BUFFER_SELECTION_ROW_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/replay_buffer/selection/draw_source.h"
#include "ding_worker/replay_buffer/storage/row_store.h"
#include "ding_worker/replay_buffer/storage/transition_reader.h"

namespace ding {

class RowSource : public DrawSource {
 public:
  using DrawSource::DrawSource;

  int64_t size() const override { return store().size(); }
  absl::Status Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) override;

 protected:
  bool RanksToIds(absl::Span<int64_t> ranks) const override;
};

class RowDraws : public DrawKind {
 public:
  RowDraws(int64_t nstep, double gamma) : nstep_(nstep), gamma_(gamma) {}

  absl::string_view state_type() const override { return "naive"; }
  int64_t state_version() const override { return 1; }
  absl::StatusOr<std::unique_ptr<DrawSource>> MakeSource(std::shared_ptr<RowStore> store) override;

 private:
  const int64_t nstep_;
  const double gamma_;
};

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_SELECTION_ROW_SOURCE_H_
