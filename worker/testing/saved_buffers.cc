#include "ding_worker/worker/testing/saved_buffers.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/replay_buffer/testing/buffer_maker.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"

namespace ding {

std::unique_ptr<IBuffer> EmptyFixtureBuffer(const BufferType& type) {
  BufferSettings settings;
  settings.capacity_rows = 40;
  return type.make(settings);
}

void FillFixtureBuffer(IBuffer* buffer) {
  TestStreams streams;
  for (int64_t i = 0; i < 6; ++i) {
    const SegmentEnd end = i % 2 == 0 ? SegmentEnd::kCut : SegmentEnd::kTerminated;
    const absl::Status pushed = buffer->Push(streams.Make({{0, 6, end}, {1, 4, end}}), i);
    DING_CHECK(pushed.ok()) << pushed;
  }
}

absl::StatusOr<int64_t> CountDrawnRows(IBuffer* buffer) {
  DING_ASSIGN_OR_RETURN(const Batch batch, buffer->Sample(buffer->count(), /*cur_learner_iter=*/0));
  DING_RETURN_IF_ERROR(CheckRows(batch));
  DING_ASSIGN_OR_RETURN(const int field, batch.spec().IndexOf("obs/place", "a draw"));
  std::set<std::pair<float, float>> places;  // stream and step
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const float* const place = batch.column<float>(field).data() + 4 * row;
    places.emplace(place[0], place[1]);
  }
  return static_cast<int64_t>(places.size());
}

std::string FixtureFile(const BufferType& type) {
  return absl::StrCat("buffer_", type.name, ".safetensors");
}

}  // namespace ding
