#include "ding_worker/replay_buffer/testing/advanced_buffer_testing.h"

#include <utility>

#include "ding_worker/data/spec.h"

namespace ding {

std::unique_ptr<AdvancedReplayBuffer> MakeAdvancedBuffer(
    const AdvancedReplayBuffer::Options& options) {
  return AdvancedReplayBuffer::Create(options).value();
}

SegmentBatch TestRows(int64_t first_step, int64_t rows, const std::vector<int64_t>& collect_iter,
                      const std::vector<float>& priority) {
  std::vector<FieldSpec> fields = {Box("obs", {1}), Scalar("reward", DType::kFloat32)};
  const SpecPtr obs_spec = MakeSpec({fields[0]}).value();
  if (!collect_iter.empty()) fields.push_back(Scalar("collect_iter", DType::kInt64));
  if (!priority.empty()) fields.push_back(Scalar("priority", DType::kFloat32));
  const SpecPtr spec = MakeSpec(fields).value();
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  BatchBuilder final_obs = BatchBuilder::Create(obs_spec, 1).value();
  for (int64_t i = 0; i < rows; ++i) {
    builder.column<float>(0)[i] = static_cast<float>(first_step + i);
    builder.column<float>(1)[i] = 1;
    int field = 2;
    if (!collect_iter.empty()) builder.column<int64_t>(field++)[i] = collect_iter[i];
    if (!priority.empty()) builder.column<float>(field)[i] = priority[i];
  }
  final_obs.column<float>(0)[0] = static_cast<float>(first_step + rows);
  SegmentBatch data;
  data.rows = std::move(builder).Seal(rows);
  data.final_obs = std::move(final_obs).Seal(1);
  data.segments = {{0, first_step, 0, rows, SegmentEnd::kCut}};
  return data;
}

SegmentBatch RowsWithPriorities(const std::vector<float>& priority) {
  return TestRows(0, static_cast<int64_t>(priority.size()), {}, priority);
}

std::vector<int64_t> IdsOf(const Batch& batch) { return IntsOf(batch, "replay_unique_id"); }

std::vector<int64_t> IntsOf(const Batch& batch, absl::string_view name) {
  const auto values = batch.column<int64_t>(name);
  return {values.begin(), values.end()};
}

std::vector<float> FloatsOf(const Batch& batch, absl::string_view name) {
  const auto values = batch.column<float>(name);
  return {values.begin(), values.end()};
}

SampleOptions WithReplacement() {
  SampleOptions options;
  options.replace = true;
  return options;
}

}  // namespace ding
