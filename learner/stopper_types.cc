#include "ding_worker/learner/stopper_types.h"

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

constexpr int64_t kMaxEvaluations = int64_t{1}
                                    << 62;  // far beyond any run, and far from an overflow

}  // namespace

std::string NoImprovementStopper::WhyStop(const RunMoment& now) {
  if (now.evaluation == nullptr) return "";
  const double mean = now.evaluation->mean_return;
  // The first one is the best so far, unless it is NaN.
  if (mean > best_ + min_delta_) {
    best_ = mean;
    since_best_ = 0;
    return "";
  }
  if (++since_best_ < evaluations_) return "";
  return absl::StrCat("no evaluation of the last ", since_best_, " was better than ", best_,
                      min_delta_ > 0 ? absl::StrCat(" by more than ", min_delta_) : "");
}

absl::Status NoImprovementStopper::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteDouble("best", best_));
  return writer->WriteInt("since_best", since_best_);
}

absl::Status NoImprovementStopper::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const double best, reader->ReadDouble("best"));
  DING_ASSIGN_OR_RETURN(const int64_t since_best, reader->ReadInt("since_best"));
  if (since_best < 0 || since_best > kMaxEvaluations) {
    return absl::InvalidArgumentError(
        absl::StrCat("saved since_best is ", since_best, ", expected 0 to ", kMaxEvaluations));
  }
  since_best_ = since_best;
  best_ = best;
  return absl::OkStatus();
}

std::string ValueReachedStopper::WhyStop(const RunMoment& now) {
  if (now.evaluation == nullptr || !(now.evaluation->mean_return >= value_)) return "";
  return absl::StrCat("the mean return of an evaluation is ", now.evaluation->mean_return,
                      ", and reaches ", value_);
}

std::string WallClockStopper::WhyStop(const RunMoment& now) {
  if (now.elapsed < limit_) return "";
  return absl::StrCat("it has taken ", absl::FormatDuration(limit_));
}

}  // namespace ding
