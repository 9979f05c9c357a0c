#include "ding_worker/learner/stopper_registry.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/state.h"
#include "ding_worker/learner/stopper.h"

namespace ding {
namespace {

// The stoppers that every program has; the messages in learner/stopper.proto describe them.

// Stops after `evaluations` in a row of which none exceeded the best mean return by more than
// `min_delta`. A NaN is never better.
class NoImprovementStopper : public IStopper {
 public:
  NoImprovementStopper(int64_t evaluations, double min_delta, std::string info)
      : evaluations_(evaluations), min_delta_(min_delta), info_(std::move(info)) {}

  std::string WhyStop(const RunMoment& now) override;
  std::string info() const override { return info_; }
  absl::Status SaveState(StateWriter* writer) const override;
  absl::Status LoadState(StateReader* reader) override;

 private:
  const int64_t evaluations_;
  const double min_delta_;
  const std::string info_;
  double best_ = -std::numeric_limits<double>::infinity();
  int64_t since_best_ = 0;  // evaluations that were not better
};

// Stops after an evaluation with a mean return, or a mean of `info`, of at least `value`.
class ValueReachedStopper : public IStopper {
 public:
  ValueReachedStopper(double value, std::string info) : value_(value), info_(std::move(info)) {}

  std::string WhyStop(const RunMoment& now) override;
  std::string info() const override { return info_; }

 private:
  const double value_;
  const std::string info_;
};

// Stops when the run has taken `limit`.
class WallClockStopper : public IStopper {
 public:
  explicit WallClockStopper(absl::Duration limit) : limit_(limit) {}

  std::string WhyStop(const RunMoment& now) override;

 private:
  const absl::Duration limit_;
};

constexpr int64_t kMaxEvaluations = int64_t{1}
                                    << 62;  // far beyond any run, and far from an overflow

// NaN if no episode of this evaluation has the value.
double JudgedValue(const Evaluation& evaluation, const std::string& info) {
  return ValueOf(evaluation, info).value_or(std::numeric_limits<double>::quiet_NaN());
}

std::string NoImprovementStopper::WhyStop(const RunMoment& now) {
  if (now.evaluation == nullptr) return "";
  const double mean = JudgedValue(*now.evaluation, info_);
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
  if (now.evaluation == nullptr) return "";
  const double mean = JudgedValue(*now.evaluation, info_);
  if (!(mean >= value_)) return "";
  return absl::StrCat("the mean ", info_.empty() ? "return" : absl::StrCat("info/", info_),
                      " of an evaluation is ", mean, ", and reaches ", value_);
}

std::string WallClockStopper::WhyStop(const RunMoment& now) {
  if (now.elapsed < limit_) return "";
  return absl::StrCat("it has taken ", absl::FormatDuration(limit_));
}

absl::Status CheckHasEvaluations(const StopperDeps& deps) {
  if (deps.has_evaluations) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "it judges evaluations, but this run has none, so that it could never stop: expected an "
      "env.type in which "
      "the policy is evaluated, or policy.eval.metric_evaluator.stop_value in its place");
}

absl::StatusOr<std::unique_ptr<IStopper>> MakeNoImprovement(const StopperConfig& /*config*/,
                                                            const NoImprovementParams& params,
                                                            const StopperDeps& deps) {
  DING_RETURN_IF_ERROR(CheckHasEvaluations(deps));
  // The first evaluation is the one that the next ones are compared with.
  if (params.evaluations() >= deps.max_evaluations) {
    return absl::InvalidArgumentError(absl::StrCat(
        "evaluations is ", params.evaluations(),
        ", so that it could never stop: expected less than ", deps.max_evaluations,
        ", as many as the run's budget (max_train_iter, max_env_step, max_seconds) allows"));
  }
  return std::make_unique<NoImprovementStopper>(params.evaluations(), params.min_delta(),
                                                params.info());
}

absl::StatusOr<std::unique_ptr<IStopper>> MakeValueReached(const StopperConfig& /*config*/,
                                                           const ValueReachedParams& params,
                                                           const StopperDeps& deps) {
  DING_RETURN_IF_ERROR(CheckHasEvaluations(deps));
  if (!params.has_value() || !std::isfinite(params.value())) {
    return absl::InvalidArgumentError(
        absl::StrCat("value is ", params.has_value() ? absl::StrCat(params.value()) : "not set",
                     ", so that it could never stop: expected a mean return to reach"));
  }
  if (params.info().empty() && params.value() > deps.max_return) {
    return absl::InvalidArgumentError(absl::StrCat(
        "value is ", params.value(), ", so that it could never stop: expected at most ",
        deps.max_return, ", which is the highest return that the env allows"));
  }
  return std::make_unique<ValueReachedStopper>(params.value(), params.info());
}

absl::StatusOr<std::unique_ptr<IStopper>> MakeWallClock(const StopperConfig& /*config*/,
                                                        const WallClockParams& params,
                                                        const StopperDeps& deps) {
  const absl::Duration limit = absl::Seconds(params.seconds());
  if (limit >= deps.max_time) {
    return absl::InvalidArgumentError(
        absl::StrCat("seconds is ", params.seconds(),
                     ", so that it could never stop: expected less than system.max_seconds, ",
                     absl::ToDoubleSeconds(deps.max_time)));
  }
  return std::make_unique<WallClockStopper>(limit);
}

DING_REGISTER(StopperRegistry(), "no_improvement", MakeNoImprovement,
              "ends the run when so many evaluations in a row were not better");
DING_REGISTER(StopperRegistry(), "value_reached", MakeValueReached,
              "ends the run when the mean return of an evaluation reaches a value");
DING_REGISTER(StopperRegistry(), "wall_clock", MakeWallClock,
              "ends the run when it has taken so many seconds");

constexpr char kCount[] = "count";
constexpr char kWhy[] = "why";

std::string ConfigName(int64_t i) { return absl::StrCat("config/", i); }
std::string HasInfoName(int64_t i) { return absl::StrCat("has_info/", i); }
std::string ScopeOf(int64_t i) { return absl::StrCat("stopper/", i); }

}  // namespace

ModuleRegistry<StopperCreator>& StopperRegistry() {
  static auto* const registry = new ModuleRegistry<StopperCreator>("stopper");
  return *registry;
}

absl::StatusOr<StopperList> StopperList::Create(
    const google::protobuf::RepeatedPtrField<StopperConfig>& configs, const StopperDeps& deps) {
  StopperList list;
  std::vector<std::string> problems;
  for (const StopperConfig& config : configs) {
    absl::StatusOr<std::unique_ptr<IStopper>> made = create_stopper(config, deps);
    std::string name = absl::StrCat("stopper '", config.type(), "'");
    if (made.ok()) {
      list.stoppers_.push_back({std::move(name), config.SerializeAsString(), *std::move(made)});
    } else {
      problems.push_back(absl::StrCat(name, ": ", made.status().message()));
    }
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems));
  return list;
}

absl::Status StopperList::Ask(const RunMoment& now) {
  for (Entry& entry : stoppers_) {
    if (!why_.empty()) break;
    if (now.evaluation != nullptr && !entry.has_info) {
      DING_RETURN_IF_ERROR(
          Annotate(ValueOf(*now.evaluation, entry.stopper->info()).status(), entry.name));
      entry.has_info = true;
    }
    DING_ASSIGN_OR_RETURN(const std::string why,
                          CallUser(entry.name, [&]() -> absl::StatusOr<std::string> {
                            return entry.stopper->WhyStop(now);
                          }));
    if (!why.empty()) why_ = absl::StrCat(entry.name, ": ", why);
  }
  return absl::OkStatus();
}

absl::Status StopperList::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(writer->WriteInt(kCount, static_cast<int64_t>(stoppers_.size())));
  if (!why_.empty()) DING_RETURN_IF_ERROR(writer->WriteString(kWhy, why_));
  for (size_t i = 0; i < stoppers_.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    DING_RETURN_IF_ERROR(writer->WriteString(ConfigName(index), stoppers_[i].config));
    if (stoppers_[i].has_info && !stoppers_[i].stopper->info().empty()) {
      DING_RETURN_IF_ERROR(writer->WriteInt(HasInfoName(index), 1));
    }
    ScopedStateWriter scope(writer, ScopeOf(index));
    DING_RETURN_IF_ERROR(
        Annotate(CallUser("SaveState()", [&] { return stoppers_[i].stopper->SaveState(&scope); }),
                 stoppers_[i].name));
  }
  return absl::OkStatus();
}

absl::Status StopperList::LoadState(StateReader* reader) {
  if (!reader->Info(kCount).ok()) return absl::OkStatus();  // from before there were stoppers
  DING_ASSIGN_OR_RETURN(const int64_t count, reader->ReadInt(kCount));
  bool all_same = count == static_cast<int64_t>(stoppers_.size());
  std::vector<bool> taken(stoppers_.size(), false);
  for (int64_t i = 0; i < count; ++i) {
    DING_ASSIGN_OR_RETURN(const std::string config, reader->ReadString(ConfigName(i)));
    bool found = false;
    for (size_t own = 0; own < stoppers_.size() && !found; ++own) {
      if (taken[own] || stoppers_[own].config != config) continue;
      found = taken[own] = true;
      stoppers_[own].has_info = reader->Info(HasInfoName(i)).ok();
      ScopedStateReader scope(reader, ScopeOf(i));
      DING_RETURN_IF_ERROR(Annotate(
          CallUser("LoadState()", [&] { return stoppers_[own].stopper->LoadState(&scope); }),
          stoppers_[own].name));
    }
    all_same = all_same && found;
  }
  if (all_same && reader->Info(kWhy).ok()) {
    DING_ASSIGN_OR_RETURN(why_, reader->ReadString(kWhy));
  }
  DING_LOG_IF(INFO, !all_same) << "other stoppers than before: those that are new begin anew";
  return absl::OkStatus();
}

}  // namespace ding
