// What a collecting task says about the policies that play: their settings, and the opponent
// (Options::has_opponent).
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/solo_commander.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {

void SoloCommander::AddCollectSetting(const TrainedPolicy& policy, CollectorTask* task) const {
  CommandMode* const command = IsOpponent(policy) ? options_.opponent : policy_;
  if (command == nullptr) return;
  // Reports of the learner may come late, or between two versions.
  const int64_t step = options_.lockstep && policy.has_newest() ? policy.newest().train_iter()
                                                                : policy.learner_step();
  const NamedValues info = {{"learner_step", static_cast<double>(step)},
                            {"envstep", static_cast<double>(policy.env_steps())}};
  const NamedValues settings =
      task->eval_flag() ? command->GetSettingEval(info) : command->GetSettingCollect(info);
  for (const auto& [name, value] : settings) {
    Setting* const setting = task->add_collect_setting();
    setting->set_name(name);
    setting->set_value(value);
  }
}

bool SoloCommander::IsOpponent(const TrainedPolicy& policy) const {
  return options_.has_opponent && policy.task().name() == kOpponentTask;
}

void SoloCommander::NameAgainstOpponent(LearnerTask* task) const {
  const bool has_first =
      std::any_of(policies().begin(), policies().end(),
                  [this](const TrainedPolicy& policy) { return !IsOpponent(policy); });
  if (!has_first) return;  // The first one has the names of a single policy.
  task->set_name(kOpponentTask);
  task->set_policy_id(absl::StrCat(kOpponentTask, "_", state_.models()));
}

const PolicyVersion* SoloCommander::NewestOfOther(const TrainedPolicy& policy) const {
  for (const TrainedPolicy& other : policies()) {
    if (IsOpponent(other) != IsOpponent(policy) && other.has_newest()) return &other.newest();
  }
  return nullptr;
}

void SoloCommander::AddPlayers(const TrainedPolicy& policy, const PolicyVersion& other,
                               CollectorTask* task) const {
  TaskPlayer* const home = task->add_player();
  home->set_player_id(policy.task().policy_id());
  home->set_update_policy(true);
  if (task->has_policy()) *home->mutable_policy() = task->policy();
  TaskPlayer* const away = task->add_player();
  away->set_player_id(other.policy_id());
  away->set_update_policy(false);
  *away->mutable_policy() = other;
  task->set_home_seat(IsOpponent(policy) ? 1 : 0);
}

}  // namespace ding
