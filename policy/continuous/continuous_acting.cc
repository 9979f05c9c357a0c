#include "ding_worker/policy/continuous/continuous_acting.h"

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/continuous/continuous_actor.h"

namespace ding {
namespace {

constexpr char kRng[] = "rng";

absl::Status CheckOutput(const Spec& action, const ColumnsView& obs,
                         const MutableColumnsView& out) {
  DING_RETURN_IF_ERROR(CheckSameLayout(action, out.spec(), "output"));
  if (out.rows() >= obs.rows()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the output has ", out.rows(), " rows for ", obs.rows(), " observations"));
}

// Computes the outputs of the actor for `obs`, normalized in `memory`, lets `choose` write actions
// in [-1, 1], and scales them.
template <typename Choose>
absl::Status Act(ContinuousActor* actor, const ColumnsView& obs, ScratchColumns* memory,
                 const MutableColumnsView& out, const Choose& choose) {
  DING_RETURN_IF_ERROR(CheckOutput(*actor->action(), obs, out));
  if (obs.rows() == 0) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const ColumnsView inputs, actor->Inputs(obs, memory));
  DING_ASSIGN_OR_RETURN(const ColumnsView outputs, actor->Infer(inputs));
  const absl::Span<float> action = out.Slice(0, obs.rows()).column<float>(0);
  choose(outputs, action);
  actor->scale().FromUnit(action, action);
  return absl::OkStatus();
}

}  // namespace

ContinuousCollectMode::ContinuousCollectMode(ContinuousActor* actor,
                                             std::unique_ptr<Exploration> exploration,
                                             const ContinuousOptions& options)
    : actor_(*actor),
      exploration_(std::move(exploration)),
      attributes_(options.collect),
      inputs_(actor_.observation()),
      rng_(options.seed, "policy/collect") {}

absl::Status ContinuousCollectMode::Forward(const ColumnsView& obs,
                                            absl::Span<const int> /*env_ids*/,
                                            const NamedValues& settings,
                                            const MutableColumnsView& out) {
  absl::Status status = exploration_->ReadSettings(settings);
  if (status.ok()) {
    status = Act(&actor_, obs, &inputs_, out,
                 [this](const ColumnsView& outputs, absl::Span<float> action) {
                   exploration_->Explore(outputs, &rng_, action);
                 });
  }
  return status.ok() ? status : Annotate(status, absl::StrCat(actor_.algorithm(), ", collect"));
}

absl::Status ContinuousCollectMode::SaveState(StateWriter* writer) const {
  return writer->WriteRng(kRng, rng_);
}

absl::Status ContinuousCollectMode::LoadState(StateReader* reader) {
  return reader->ReadRng(kRng, &rng_);
}

absl::Status ContinuousEvalMode::Forward(const ColumnsView& obs, absl::Span<const int> /*env_ids*/,
                                         const NamedValues& /*settings*/,
                                         const MutableColumnsView& out) {
  const absl::Status status =
      Act(&actor_, obs, &inputs_, out, [](const ColumnsView& outputs, absl::Span<float> action) {
        SquashMean(outputs.column<float>(0), action);
      });
  return status.ok() ? status : Annotate(status, absl::StrCat(actor_.algorithm(), ", eval"));
}

}  // namespace ding
