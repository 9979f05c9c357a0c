// Registers NaiveCommander as "naive".
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/commander/base_commander.h"
#include "ding_worker/coordinator/commander/commander_registry.h"
#include "ding_worker/coordinator/commander/naive_commander.h"
#include "ding_worker/coordinator/coordinator.pb.h"
#include "ding_worker/interaction/messages.pb.h"

namespace ding {
namespace {

constexpr char kName[] = "naive";

bool NeedsAny(const Resources& resources) {
  return resources.cpus() != 0 || resources.memory_bytes() != 0 || resources.gpus() != 0;
}

// Refuses fields that NaiveCommander would ignore: its tasks never evaluate, never converge, and go to any worker.
absl::Status RefuseUnusedFields(const CommanderConfig& config) {
  const CommanderConfig& defaults = CommanderConfig::default_instance();
  const std::pair<absl::string_view, bool> fields[] = {
      {"eval_interval", config.eval_interval() != defaults.eval_interval()},
      {"stop_after_seconds", config.stop_after_seconds() != defaults.stop_after_seconds()},
      {"collector_resources", NeedsAny(config.collector_resources())},
      {"learner_resources", NeedsAny(config.learner_resources())},
  };
  std::vector<absl::string_view> set;
  for (const auto& [field, is_set] : fields) {
    if (is_set) set.push_back(field);
  }
  if (set.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("commander: type '", kName, "' does not use ", absl::StrJoin(set, ", "),
                   ": expected the defaults, or type 'solo', which does"));
}

absl::StatusOr<std::unique_ptr<BaseCommander>> CreateNaiveCommander(const CommanderConfig& config,
                                                                    const CommanderDeps&) {
  DING_RETURN_IF_ERROR(RefuseUnusedFields(config));
  NaiveCommander::Options options;
  if (config.has_collector_task_space()) {
    options.collector_task_space = config.collector_task_space();
  }
  options.learner_task_space = config.learner_task_space();
  return NaiveCommander::Create(options);
}

CommanderDescriptor Descriptor() {
  CommanderDescriptor descriptor;
  descriptor.name = kName;
  descriptor.default_config.set_type(kName);
  descriptor.check_params = TakesNoParams;
  descriptor.create = CreateNaiveCommander;
  return descriptor;
}

DING_REGISTER(CommanderRegistry(), kName, Descriptor(),
              "gives the same tasks over and over, to try out a coordinator");

}  // namespace
}  // namespace ding
