#include "ding_worker/policy/actor_critic/greedy_eval.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

absl::Status CheckOutput(const Spec& expected, const ColumnsView& obs,
                         const MutableColumnsView& out) {
  DING_RETURN_IF_ERROR(CheckSameLayout(expected, out.spec(), "output"));
  if (out.rows() >= obs.rows()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the output has ", out.rows(), " rows for ", obs.rows(), " observations"));
}

GreedyEval::GreedyEval(std::string name, ActorCritic* networks)
    : name_(std::move(name)), networks_(*networks) {
  if (networks_.state_size() > 0) states_.emplace(networks_.state_size());
}

absl::Status GreedyEval::Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                                 const NamedValues& /*settings*/, const MutableColumnsView& out) {
  const absl::Status status = Choose(obs, env_ids, out);
  return status.ok() ? status : Annotate(status, absl::StrCat(name_, ", eval"));
}

absl::Status GreedyEval::Reset(absl::Span<const int> env_ids) {
  if (states_.has_value()) states_->Reset(env_ids);
  return absl::OkStatus();
}

absl::Status GreedyEval::Choose(const ColumnsView& obs, absl::Span<const int> env_ids,
                                const MutableColumnsView& out) {
  DING_RETURN_IF_ERROR(CheckOutput(*networks_.action(), obs, out));
  if (obs.rows() == 0) return absl::OkStatus();
  absl::Span<float> states;
  if (states_.has_value()) {
    DING_RETURN_IF_ERROR(RecurrentStates::CheckIds(env_ids, obs.rows()));
    states = states_->Gather(env_ids);
  }
  DING_RETURN_IF_ERROR(networks_.Act(obs, {}, states));
  if (states_.has_value()) states_->Scatter(env_ids);
  networks_.distribution().Mode(out.Slice(0, obs.rows()));
  return absl::OkStatus();
}

}  // namespace ding
