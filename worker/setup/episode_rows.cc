#include "ding_worker/worker/setup/episode_rows.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/returns.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/data/tensor.h"

namespace ding {

int64_t RowsOf(const std::vector<Segment>& segments, absl::Span<const int64_t> episodes) {
  int64_t rows = 0;
  for (const int64_t episode : episodes) rows += segments[static_cast<size_t>(episode)].length;
  return rows;
}

absl::StatusOr<Batch> TakeEpisodes(const ColumnsView& rows, const std::vector<Segment>& segments,
                                   absl::Span<const int64_t> episodes, const SpecPtr& spec) {
  const int64_t count = RowsOf(segments, episodes);
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(spec, count));
  int64_t next = 0;
  for (const int64_t episode : episodes) {
    const Segment& segment = segments[static_cast<size_t>(episode)];
    CopyRows(rows.Slice(segment.begin, segment.length), builder.view(), next);
    next += segment.length;
  }
  return std::move(builder).Seal(count);
}

absl::StatusOr<SpecPtr> WithTransitions(const Spec& rows, const Spec& observation) {
  std::vector<FieldSpec> fields(rows.fields().begin(), rows.fields().end());
  for (FieldSpec field : observation.fields()) {
    field.name = NextObsColumn(field.name);
    fields.push_back(std::move(field));
  }
  fields.push_back(Scalar(kColumnReward, DType::kFloat32));
  fields.push_back(Scalar(kColumnDiscount, DType::kFloat32));
  return MakeSpec(std::move(fields));
}

absl::Status CheckReward(const Spec& rows) {
  const std::optional<int> found = rows.Find(kColumnReward);
  const FieldSpec wanted = Scalar(kColumnReward, DType::kFloat32);
  if (found.has_value() && rows.field(*found).dtype == wanted.dtype &&
      rows.field(*found).shape.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      found.has_value() ? absl::StrCat("its 'reward' is ", rows.field(*found).DebugString())
                        : std::string("it has no 'reward'"),
      ", but the policy learns from rewards: expected 'reward' float32[]"));
}

absl::StatusOr<Batch> AddTransitions(const Batch& taken, const SegmentBatch& set,
                                     const SpecPtr& observation, const SpecPtr& spec,
                                     absl::Span<const int64_t> episodes,
                                     const TransitionOptions& options) {
  DING_ASSIGN_OR_RETURN(const int reward_field, set.rows.spec().IndexOf(kColumnReward, "rows"));
  std::vector<int> final_fields;
  for (const FieldSpec& field : observation->fields()) {
    DING_ASSIGN_OR_RETURN(const int at, set.final_obs.spec().IndexOf(field.name, "final_obs"));
    final_fields.push_back(at);
  }
  const int next_begin = taken.spec().size();
  DING_ASSIGN_OR_RETURN(BatchBuilder builder, BatchBuilder::Create(spec, taken.rows()));
  CopyRows(taken.view(), builder.view(), 0);
  const absl::Span<float> rewards = builder.column<float>(spec->size() - 2);
  const absl::Span<float> discounts = builder.column<float>(spec->size() - 1);
  int64_t begin = 0;
  for (const int64_t episode : episodes) {
    const Segment& segment = set.segments[static_cast<size_t>(episode)];
    const absl::Span<const float> reward =
        set.rows.column<float>(reward_field).subspan(segment.begin, segment.length);
    for (int64_t t = 0; t < segment.length; ++t) {
      const NStepReturn nstep =
          ComputeNStepReturn(reward.subspan(t), segment.end, options.nstep, options.gamma);
      rewards[begin + t] = nstep.reward;
      discounts[begin + t] = nstep.bootstrap_discount;
      const bool ends = t + nstep.steps == segment.length;
      for (int i = 0; i < observation->size(); ++i) {
        const int64_t bytes = observation->field(i).row_bytes();
        const Tensor& next = ends ? set.final_obs.tensor(final_fields[i]) : taken.tensor(i);
        const int64_t next_row = ends ? episode : begin + t + nstep.steps;
        const absl::string_view from = next.bytes().substr(static_cast<size_t>(next_row * bytes));
        std::memcpy(builder.view().raw_column(next_begin + i) + (begin + t) * bytes, from.data(),
                    static_cast<size_t>(bytes));
      }
    }
    begin += segment.length;
  }
  return std::move(builder).Seal(taken.rows());
}

}  // namespace ding
