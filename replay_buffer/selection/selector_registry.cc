#include "ding_worker/replay_buffer/selection/selector_registry.h"

#include "absl/status/status.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<SelectorFactory>& SelectorRegistry() {
  static auto* const registry = new Registry<SelectorFactory>("selector");
  return *registry;
}

absl::StatusOr<std::unique_ptr<ISelector>> create_selector(const SelectorConfig& config) {
  if (config.type().empty()) {
    if (!config.has_params()) return nullptr;
    return absl::InvalidArgumentError(
        "selector.params is set, expected selector.type with it, which says what they are for");
  }
  DING_ASSIGN_OR_RETURN(const SelectorFactory create, SelectorRegistry().Find(config.type()));
  return CallFactory("selector", config.type(), [&] { return create(config); });
}

}  // namespace ding
