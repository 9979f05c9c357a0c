// A command mode for tests. Its settings show which progress of the run the coordinator has passed
// to it.
//
// Threads: thread-safe.
#ifndef DING_WORKER_COORDINATOR_TESTING_FAKE_COMMAND_MODE_H_
#define DING_WORKER_COORDINATOR_TESTING_FAKE_COMMAND_MODE_H_

#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/policy.h"

namespace ding {

// Returns 1000 * "learner_step" + "envstep" as the setting "eps".
class FakeCommandMode : public CommandMode {
 public:
  NamedValues GetSettingCollect(const NamedValues& info) override {
    return {{"eps", 1000 * *info.Get("learner_step") + *info.Get("envstep")}};
  }
};

}  // namespace ding

#endif  // DING_WORKER_COORDINATOR_TESTING_FAKE_COMMAND_MODE_H_
