// Finds replay buffers by the name in their config.
//
// Example:
//   BufferConfig config;
//   config.set_type("naive");
//   DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> buffer, create_buffer(config, deps));
#ifndef DING_WORKER_REPLAY_BUFFER_BUFFER_REGISTRY_H_
#define DING_WORKER_REPLAY_BUFFER_BUFFER_REGISTRY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/metrics/component.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"

namespace ding {

// What get_buffer_cls() returns: a type of buffer before it is made.
struct BufferDescriptor {
  std::string name;
  BufferConfig default_config;
  std::function<absl::StatusOr<std::unique_ptr<IBuffer>>(const BufferConfig&, const ComponentDeps&)>
      create;
};
Registry<BufferDescriptor>& BufferRegistry();

// kNotFound lists the names that are linked; kInvalidArgument reports every problem of the config
// at once.
absl::StatusOr<std::unique_ptr<IBuffer>> create_buffer(const BufferConfig& config,
                                                       const ComponentDeps& deps);
absl::StatusOr<BufferDescriptor> get_buffer_cls(const BufferConfig& config);

}  // namespace ding

#endif  // DING_WORKER_REPLAY_BUFFER_BUFFER_REGISTRY_H_
