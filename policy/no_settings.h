// The command mode of a policy whose other modes need no settings.
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_NO_SETTINGS_H_
#define DING_WORKER_POLICY_NO_SETTINGS_H_

#include "ding_worker/data/named_values.h"
#include "ding_worker/policy/policy.h"

namespace ding {

class NoSettings : public CommandMode {
 public:
  NamedValues GetSettingCollect(const NamedValues& /*info*/) override { return {}; }
};

}  // namespace ding

#endif  // DING_WORKER_POLICY_NO_SETTINGS_H_
