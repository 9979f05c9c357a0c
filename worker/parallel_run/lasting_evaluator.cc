#include "ding_worker/worker/parallel_run/lasting_evaluator.h"

#include <utility>

#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/checkpoint.h"

namespace ding {
namespace {

constexpr char kKind[] = "ding_worker/evaluator";
constexpr char kComponent[] = "evaluator";

}  // namespace

LastingEvaluator::LastingEvaluator(std::unique_ptr<ISerialEvaluator> evaluator, std::string folder)
    : evaluator_(std::move(evaluator)), folder_(std::move(folder)) {}

absl::StatusOr<EvalResult> LastingEvaluator::Eval(const EvalOptions& options) {
  if (const absl::Status loaded = Load(); !loaded.ok()) {
    DING_LOG(WARNING) << "earlier evaluations are forgotten: " << folder_ << ": "
                      << loaded.message();
  }
  DING_ASSIGN_OR_RETURN(EvalResult result, evaluator_->Eval(options));
  if (const absl::Status saved = Save(); !saved.ok()) {
    DING_LOG(WARNING) << "later evaluations will not know of this one: " << folder_ << ": "
                      << saved.message();
  }
  return result;
}

absl::Status LastingEvaluator::Load() {
  if (!PathExists(folder_)) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, CheckpointReader::Open(folder_));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<StateReader> state, checkpoint.Component(kComponent));
  return evaluator_->LoadState(state.get());
}

absl::Status LastingEvaluator::Save() const {
  return WriteCheckpoint(
      folder_, {kKind, {}},
      {{kComponent, [this](StateWriter* writer) { return evaluator_->SaveState(writer); }}});
}

}  // namespace ding
