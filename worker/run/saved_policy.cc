#include "ding_worker/worker/run/saved_policy.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"
#include "ding_worker/env/env.h"
#include "ding_worker/learner/checkpoint.h"
#include "ding_worker/policy/policy_registry.h"
#include "ding_worker/worker/run/policy_description.h"

namespace ding {

absl::StatusOr<std::unique_ptr<SavedPolicy>> SavedPolicy::Load(const std::string& checkpoint,
                                                               const ActorOptions& options) {
  const auto load = [&]() -> absl::StatusOr<std::unique_ptr<SavedPolicy>> {
    DING_ASSIGN_OR_RETURN(const CheckpointReader reader, OpenTrainCheckpoint(checkpoint));
    DING_ASSIGN_OR_RETURN(PolicyDescription description, DescriptionOf(reader.info()));
    EnvSpec& player = description.player;
    if (player.observation == nullptr || player.action == nullptr) {
      return absl::FailedPreconditionError(
          "it does not hold the spaces of its env, whose bounds were too long to save; act with "
          "the "
          "env manager and the evaluator instead (docs/how_to/use_a_policy.md)");
    }
    PolicyContext context;
    context.observation = player.observation;
    context.action = player.action;
    context.env = player.name;
    DING_ASSIGN_OR_RETURN(std::unique_ptr<EvalMode> actor,
                          LoadActor(reader, description.config, std::move(context), options));
    return absl::WrapUnique(
        new SavedPolicy(std::move(player.observation), std::move(player.action), std::move(actor)));
  };
  absl::StatusOr<std::unique_ptr<SavedPolicy>> policy = load();
  if (policy.ok()) return policy;
  return Annotate(policy.status(), absl::StrCat("checkpoint ", checkpoint));
}

absl::Status SavedPolicy::Begin(absl::Span<const int> ids) { return actor_->Reset(ids); }

absl::StatusOr<ColumnsView> SavedPolicy::Act(const ColumnsView& obs, absl::Span<const int> ids) {
  DING_RETURN_IF_ERROR(CheckSameLayout(*observation_, obs.spec(), "observation"));
  if (ids.empty()) {
    for (int64_t i = static_cast<int64_t>(row_numbers_.size()); i < obs.rows(); ++i) {
      row_numbers_.push_back(static_cast<int>(i));
    }
    ids = absl::MakeConstSpan(row_numbers_).first(static_cast<size_t>(obs.rows()));
  }
  if (static_cast<int64_t>(ids.size()) != obs.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Act(): ", ids.size(), " ids for ", obs.rows(), " rows of observations"));
  }
  if (!output_.has_value() || output_->capacity_rows() < obs.rows()) {
    DING_ASSIGN_OR_RETURN(output_, BatchBuilder::Create(actor_->output_spec(), obs.rows()));
  }
  const MutableColumnsView out = output_->view().Slice(0, obs.rows());
  DING_RETURN_IF_ERROR(actor_->Forward(obs, ids, {}, out));
  return out.Fields(action_.get(), 0);
}

}  // namespace ding
