// Asks the command mode of a policy, in a serial run, for the settings of the other modes, such as
// epsilon as a function of the env steps so far.
//
// Ownership: owns none of its arguments, which must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_BASE_SERIAL_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_BASE_SERIAL_COMMANDER_H_

#include <cstdint>

#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/collector/serial_evaluator.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

class BaseSerialCommander {
 public:
  // `policy` may be null: there are no settings then. `evaluator` and `buffer` are only for derived
  // commanders, and may be null, too.
  BaseSerialCommander(const LearnerView* learner, const ISerialCollector* collector,
                      CommandMode* policy, const ISerialEvaluator* evaluator = nullptr,
                      const IBuffer* buffer = nullptr);

  // Returns the settings for the next Collect(), given the progress of learner and collector.
  NamedValues Step();
  // Returns the settings for the next batch of the learner, such as the learning rate. `envstep`
  // are the env steps that the learner knows of; a collector that works at the same time may have
  // taken more.
  NamedValues LearnSettings(int64_t envstep);

  const ISerialEvaluator* evaluator() const { return evaluator_; }
  const IBuffer* buffer() const { return buffer_; }
  CommandMode* policy() const { return policy_; }
  void set_policy(CommandMode* policy) { policy_ = policy; }
  // The progress at the last call of the policy: "learner_step" and "envstep".
  const NamedValues& info() const { return info_; }

 private:
  void UpdateInfo(int64_t envstep);

  const LearnerView* const learner_;
  const ISerialCollector* const collector_;
  CommandMode* policy_;
  const ISerialEvaluator* const evaluator_;
  const IBuffer* const buffer_;
  NamedValues info_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_BASE_SERIAL_COMMANDER_H_
