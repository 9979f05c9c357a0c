#include "ding_worker/worker/registry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ding {
namespace {

template <typename Factory>
void AppendNames(const Registry<Factory>& registry, std::string* text) {
  absl::StrAppend(text, registry.kind(), ": ", absl::StrJoin(registry.Names(), ", "), "\n");
}

}  // namespace

std::string ListModules() {
  std::string text;
  AppendNames(EnvRegistry(), &text);
  AppendNames(EnvManagerRegistry(), &text);
  AppendNames(PolicyRegistry(), &text);
  AppendNames(NetworkRegistry(), &text);
  AppendNames(BufferRegistry(), &text);
  AppendNames(SerialCollectorRegistry(), &text);
  AppendNames(BattleCollectorRegistry(), &text);
  AppendNames(SerialEvaluatorRegistry(), &text);
  AppendNames(BattleEvaluatorRegistry(), &text);
  AppendNames(MetricEvaluatorRegistry(), &text);
  AppendNames(LearnerRegistry(), &text);
  AppendNames(LearnerHookRegistry(), &text);
  return text;
}

}  // namespace ding
