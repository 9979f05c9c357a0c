// Tells the modes of a policy, in a serial run, how to act now: epsilon by the env steps so far,
// and such.
//
// Ownership: none of what it is given; all must outlive it.
// Threads:   thread-compatible.
#ifndef DING_WORKER_COORDINATOR_COMMANDER_BASE_SERIAL_COMMANDER_H_
#define DING_WORKER_COORDINATOR_COMMANDER_BASE_SERIAL_COMMANDER_H_

#include <cstdint>

#include "ding_worker/collector/serial_collector.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/learner/learner.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class BaseSerialCommander {
 public:
  // `policy` may be null: every setting is then empty.
  BaseSerialCommander(const ILearner* learner, const ISerialCollector* collector,
                      CommandMode* policy);

  // Settings for the next Collect(), by the progress of learner and collector.
  NamedValues Step();
  // The same for what is learned next, the learning rate, say. The learner knows of `envstep` env steps, which may be
  // fewer than those of a collector that works at the same time.
  NamedValues LearnSettings(int64_t envstep);

  CommandMode* policy() const { return policy_; }
  void set_policy(CommandMode* policy) { policy_ = policy; }
  // The values that the policy got last: "learner_step", "envstep".
  const NamedValues& info() const { return info_; }

 private:
  void UpdateInfo(int64_t envstep);

  const ILearner* const learner_;
  const ISerialCollector* const collector_;
  CommandMode* policy_;
  NamedValues info_;
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_COMMANDER_BASE_SERIAL_COMMANDER_H_
