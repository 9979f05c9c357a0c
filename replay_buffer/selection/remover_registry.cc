#include "ding_worker/replay_buffer/selection/remover_registry.h"

#include "absl/status/status.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<RemoverFactory>& RemoverRegistry() {
  static auto* const registry = new Registry<RemoverFactory>("remover");
  return *registry;
}

absl::StatusOr<std::unique_ptr<IRemover>> create_remover(const RemoverConfig& config) {
  if (config.type().empty()) {
    if (!config.has_params()) return nullptr;
    return absl::InvalidArgumentError(
        "remover.params is set, expected remover.type with it, which says what they are for");
  }
  DING_ASSIGN_OR_RETURN(const RemoverFactory create, RemoverRegistry().Find(config.type()));
  return CallFactory("remover", config.type(), [&] { return create(config); });
}

}  // namespace ding
