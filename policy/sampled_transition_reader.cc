#include "ding_worker/policy/sampled_transition_reader.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/dtype.h"
#include "ding_worker/data/sample_columns.h"

namespace ding {
namespace {

constexpr char kWhere[] = "training batch";

SpecPtr Floats(std::vector<FieldSpec> fields) { return *MakeSpec(std::move(fields)); }

}  // namespace

SampledTransitionReader::SampledTransitionReader(SpecPtr observation, SpecPtr action)
    : obs_(observation, "", kWhere),
      next_obs_(std::move(observation), "next_", kWhere),
      action_(std::move(action), "", kWhere),
      scalars_(Floats({Scalar(kColumnReward, DType::kFloat32),
                       Scalar(kColumnDiscount, DType::kFloat32)}),
               "", kWhere),
      weight_(Floats({Scalar(kColumnWeight, DType::kFloat32)}), "", kWhere) {}

absl::Status SampledTransitionReader::Resolve(const Spec& batch) {
  DING_RETURN_IF_ERROR(obs_.Resolve(batch));
  DING_RETURN_IF_ERROR(next_obs_.Resolve(batch));
  DING_RETURN_IF_ERROR(action_.Resolve(batch));
  DING_RETURN_IF_ERROR(scalars_.Resolve(batch));
  has_weight_ = batch.Find(kColumnWeight).has_value();
  return has_weight_ ? weight_.Resolve(batch) : absl::OkStatus();
}

absl::StatusOr<TransitionView> SampledTransitionReader::Read(const Batch& batch) {
  if (batch.empty()) return absl::InvalidArgumentError(absl::StrCat(kWhere, ": it has no rows"));
  if (resolved_ != batch.spec_ptr()) {
    resolved_.reset();
    DING_RETURN_IF_ERROR(Resolve(batch.spec()));
    resolved_ = batch.spec_ptr();
  }
  const ColumnsView columns = batch.view();
  TransitionView view;
  view.obs = obs_.Bind(columns);
  view.next_obs = next_obs_.Bind(columns);
  view.action = action_.Bind(columns);
  DING_RETURN_IF_ERROR(obs_.CheckValues(view.obs));
  DING_RETURN_IF_ERROR(next_obs_.CheckValues(view.next_obs));
  DING_RETURN_IF_ERROR(action_.CheckValues(view.action));
  const ColumnsView scalars = scalars_.Bind(columns);
  DING_RETURN_IF_ERROR(scalars_.CheckValues(scalars));
  view.reward = scalars.column<float>(0);
  view.discount = scalars.column<float>(1);
  if (!has_weight_) return view;
  const ColumnsView weight = weight_.Bind(columns);
  DING_RETURN_IF_ERROR(weight_.CheckValues(weight));
  view.weight = weight.column<float>(0);
  return view;
}

}  // namespace ding
