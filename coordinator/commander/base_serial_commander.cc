#include "ding_worker/coordinator/commander/base_serial_commander.h"

namespace ding {

BaseSerialCommander::BaseSerialCommander(const LearnerView* learner,
                                         const ISerialCollector* collector, CommandMode* policy,
                                         const ISerialEvaluator* evaluator, const IBuffer* buffer)
    : learner_(learner),
      collector_(collector),
      policy_(policy),
      evaluator_(evaluator),
      buffer_(buffer) {}

NamedValues BaseSerialCommander::Step() {
  UpdateInfo(collector_->envstep());
  return policy_ == nullptr ? NamedValues() : policy_->GetSettingCollect(info_);
}

NamedValues BaseSerialCommander::LearnSettings(int64_t envstep) {
  UpdateInfo(envstep);
  return policy_ == nullptr ? NamedValues() : policy_->GetSettingLearn(info_);
}

void BaseSerialCommander::UpdateInfo(int64_t envstep) {
  info_.Set("learner_step", static_cast<double>(learner_->train_iter()));
  info_.Set("envstep", static_cast<double>(envstep));
}

}  // namespace ding
