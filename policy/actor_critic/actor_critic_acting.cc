#include "ding_worker/policy/actor_critic/actor_critic_acting.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/sample_columns.h"
#include "ding_worker/policy/action_distribution.h"

namespace ding {
namespace {

constexpr char kRng[] = "rng";

}  // namespace

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

SampleCollect::SampleCollect(std::string name, ActorCritic* networks,
                             const CollectAttributes& attributes, uint64_t seed, bool with_log_prob)
    : name_(std::move(name)),
      networks_(*networks),
      attributes_(attributes),
      rng_(seed, "policy/collect"),
      with_log_prob_(with_log_prob) {
  const absl::Span<const FieldSpec> sampled = networks_.distribution().sample_fields();
  std::vector<FieldSpec> fields(sampled.begin(), sampled.end());
  if (with_log_prob) fields.push_back(Box(kColumnLogProb, {}));
  output_ = *MakeSpec(std::move(fields));
}

absl::Status SampleCollect::Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                                    const NamedValues& /*settings*/,
                                    const MutableColumnsView& out) {
  const absl::Status status = Sample(obs, out);
  return status.ok() ? status : Annotate(status, absl::StrCat(name_, ", collect"));
}

absl::Status SampleCollect::Sample(const ColumnsView& obs, const MutableColumnsView& out) {
  DING_RETURN_IF_ERROR(CheckOutput(*output_, obs, out));
  if (obs.rows() == 0) return absl::OkStatus();
  DING_RETURN_IF_ERROR(networks_.Act(obs, {}));
  const MutableColumnsView rows = out.Slice(0, obs.rows());
  ActionDistribution& distribution = networks_.distribution();
  distribution.Sample(&rng_, rows);
  if (!with_log_prob_) return absl::OkStatus();
  const int log_prob = output_->size() - 1;  // the taken action is before it
  distribution.LogProb(rows, log_prob - 1, rows.column<float>(log_prob));
  return absl::OkStatus();
}

absl::Status SampleCollect::SaveState(StateWriter* writer) const {
  return writer->WriteRng(kRng, rng_);
}

absl::Status SampleCollect::LoadState(StateReader* reader) { return reader->ReadRng(kRng, &rng_); }

}  // namespace ding
