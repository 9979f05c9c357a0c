#include "ding_worker/replay_buffer/buffer_registry.h"

#include "ding_worker/base/status_macros.h"

namespace ding {

Registry<BufferDescriptor>& BufferRegistry() {
  static auto* const registry = new Registry<BufferDescriptor>("buffer");
  return *registry;
}

absl::StatusOr<BufferDescriptor> get_buffer_cls(const BufferConfig& config) {
  return BufferRegistry().Find(config.type());
}

absl::StatusOr<std::unique_ptr<IBuffer>> create_buffer(const BufferConfig& config,
                                                       const ComponentDeps& deps) {
  DING_ASSIGN_OR_RETURN(const BufferDescriptor descriptor, get_buffer_cls(config));
  return descriptor.create(config, deps);
}

}  // namespace ding
