#include "ding_worker/policy/policy_registry.h"

#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<PolicyCreator>& PolicyRegistry() {
  static auto* const registry = new Registry<PolicyCreator>("policy");
  return *registry;
}

Registry<NetworkCreator>& NetworkRegistry() {
  static auto* const registry = new Registry<NetworkCreator>("network");
  return *registry;
}

absl::StatusOr<std::unique_ptr<Policy>> create_policy(const PolicyConfig& config,
                                                      const PolicyContext& context) {
  DING_ASSIGN_OR_RETURN(const PolicyCreator create, PolicyRegistry().Find(config.type()));
  return create(config, context);
}

absl::StatusOr<std::unique_ptr<Network>> create_network(const NetworkConfig& config,
                                                        const SpecPtr& input,
                                                        const SpecPtr& outputs, uint64_t seed) {
  DING_ASSIGN_OR_RETURN(const NetworkCreator create, NetworkRegistry().Find(config.type()));
  return create(config, input, outputs, seed);
}

}  // namespace ding
