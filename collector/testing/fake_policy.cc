#include "ding_worker/collector/testing/fake_policy.h"

#include <utility>

#include "ding_worker/base/status_macros.h"

namespace ding {

FakePolicy::FakePolicy(CollectAttributes attributes, int64_t action_count)
    : FakePolicy(attributes,
                 MakeSpec({Discrete("action", action_count), Box("logit", {2})}).value()) {}

FakePolicy::FakePolicy(CollectAttributes attributes, SpecPtr output)
    : attributes_(attributes), output_(std::move(output)) {}

absl::Status FakePolicy::Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                                 const NamedValues& settings, const MutableColumnsView& out) {
  last_settings = settings;
  last_batch = obs.rows();
  if (on_forward) DING_RETURN_IF_ERROR(on_forward(env_ids));
  const absl::Span<int64_t> actions = out.column<int64_t>(0);
  last_actions = actions.data();
  for (size_t i = 0; i < env_ids.size(); ++i) {
    actions[i] = rows % output_->field(0).num_categories;
    if (output_->Find("logit").has_value()) {
      out.column<float>(1)[2 * i] = static_cast<float>(env_ids[i]);
      out.column<float>(1)[2 * i + 1] = static_cast<float>(rows);
    }
    ++rows;
  }
  return absl::OkStatus();
}

absl::Status FakePolicy::ForwardWith(const ColumnsView& obs, absl::Span<const int> env_ids,
                                     const NamedValues& settings, const TensorMap& tensors,
                                     const MutableColumnsView& out) {
  last_tensors = tensors;
  return Forward(obs, env_ids, settings, out);
}

absl::Status FakePolicy::Reset(absl::Span<const int> env_ids) {
  resets.emplace_back(env_ids.begin(), env_ids.end());
  return absl::OkStatus();
}

absl::StatusOr<SegmentBatch> FakePolicy::GetTrainSample(SegmentBatch data) {
  if (on_train_sample) on_train_sample(&data);
  return data;
}

absl::Status FakePolicy::LoadModel(StateReader* reader) {
  return on_load_model ? on_load_model(reader) : absl::OkStatus();
}

absl::Status FakePolicy::SaveState(StateWriter* writer) const {
  return writer->WriteInt("rows", rows);
}

absl::Status FakePolicy::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(rows, reader->ReadInt("rows"));
  return absl::OkStatus();
}

}  // namespace ding
