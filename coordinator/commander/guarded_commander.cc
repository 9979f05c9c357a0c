#include "ding_worker/coordinator/commander/guarded_commander.h"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace {

class GuardedCommander : public BaseCommander {
 public:
  explicit GuardedCommander(std::unique_ptr<BaseCommander> commander)
      : commander_(std::move(commander)) {}

  std::optional<CollectorTask> GetCollectorTask() override {
    return Guard<std::optional<CollectorTask>>([&] { return commander_->GetCollectorTask(); });
  }
  std::optional<LearnerTask> GetLearnerTask() override {
    return Guard<std::optional<LearnerTask>>([&] { return commander_->GetLearnerTask(); });
  }
  absl::Duration AskAgainAfter() const override {
    return Guard<absl::Duration>([&] { return commander_->AskAgainAfter(); });
  }
  absl::Status status() const override {
    const absl::Status own = Guard<absl::Status>([&] { return commander_->status(); });
    return failed_.ok() ? own : failed_;
  }
  bool JudgeCollectorFinish(const CollectorFinished& info) const override {
    return Guard<bool>([&] { return commander_->JudgeCollectorFinish(info); });
  }
  bool JudgeLearnerFinish(const LearnerInfo& info) const override {
    return Guard<bool>([&] { return commander_->JudgeLearnerFinish(info); });
  }
  bool WouldConverge(const CollectorTask& task, const CollectorFinished& info) const override {
    return Guard<bool>([&] { return commander_->WouldConverge(task, info); });
  }
  bool FinishCollectorTask(const CollectorTask& task, const CollectorFinished& info) override {
    return Guard<bool>([&] { return commander_->FinishCollectorTask(task, info); });
  }
  void FinishLearnerTask(const LearnerTask& task) override {
    Guard<void>([&] { commander_->FinishLearnerTask(task); });
  }
  void NotifyFailCollectorTask(const CollectorTask& task) override {
    Guard<void>([&] { commander_->NotifyFailCollectorTask(task); });
  }
  void NotifyFailLearnerTask(const LearnerTask& task) override {
    Guard<void>([&] { commander_->NotifyFailLearnerTask(task); });
  }
  void UpdateLearnerInfo(const LearnerTask& task, const LearnerInfo& info) override {
    Guard<void>([&] { commander_->UpdateLearnerInfo(task, info); });
  }
  void PolicyPublished(const PolicyVersion& version) override {
    Guard<void>([&] { commander_->PolicyPublished(version); });
  }
  bool KeepsPolicy(const PolicyVersion& version) const override {
    // What may be needed stays.
    return Guard<bool>([&] { return commander_->KeepsPolicy(version); }) || !failed_.ok();
  }
  void IncreaseCollectorTaskSpace() override {
    Guard<void>([&] { commander_->IncreaseCollectorTaskSpace(); });
  }
  void DecreaseCollectorTaskSpace() override {
    Guard<void>([&] { commander_->DecreaseCollectorTaskSpace(); });
  }
  absl::Status SaveState(StateWriter* writer) const override {
    const absl::Status saved = Guard<absl::Status>([&] { return commander_->SaveState(writer); });
    if (failed_.ok()) failed_ = Annotate(saved, "the commander cannot save its state");
    return failed_;
  }
  absl::Status LoadState(StateReader* reader) override {
    const absl::Status loaded = Guard<absl::Status>([&] { return commander_->LoadState(reader); });
    return failed_.ok() ? loaded : failed_;
  }
  int64_t total_collector_env_step() const override {
    return Guard<int64_t>([&] { return commander_->total_collector_env_step(); });
  }
  std::optional<double> last_eval_value() const override {
    return Guard<std::optional<double>>([&] { return commander_->last_eval_value(); });
  }
  const std::vector<double>& last_eval_returns() const override {
    last_eval_returns_ =
        Guard<std::vector<double>>([&] { return commander_->last_eval_returns(); });
    return last_eval_returns_;
  }
  void AddStatus(RunStatus* status) const override {
    Guard<void>([&] { commander_->AddStatus(status); });
  }

 private:
  // Returns what `call` returns, or a default value if it throws or the commander has failed before.
  template <typename Result, typename Call>
  Result Guard(const Call& call) const {
    if constexpr (std::is_void_v<Result>) {
      Guard<bool>([&call] {
        call();
        return true;
      });
    } else {
      Result result{};
      if (!failed_.ok()) return result;
      failed_ = CallUser("the commander", [&] {
        result = call();
        return absl::OkStatus();
      });
      return failed_.ok() ? result : Result{};
    }
  }

  const std::unique_ptr<BaseCommander> commander_;
  mutable absl::Status failed_;
  mutable std::vector<double> last_eval_returns_;
};

}  // namespace

std::unique_ptr<BaseCommander> GuardCommander(std::unique_ptr<BaseCommander> commander) {
  return std::make_unique<GuardedCommander>(std::move(commander));
}

}  // namespace ding
