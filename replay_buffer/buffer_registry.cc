#include "ding_worker/replay_buffer/buffer_registry.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/guarded_buffer.h"

namespace ding {

Registry<BufferDescriptor>& BufferRegistry() {
  static auto* const registry = new Registry<BufferDescriptor>("buffer");
  return *registry;
}

absl::StatusOr<BufferDescriptor> get_buffer_cls(const BufferConfig& config) {
  return BufferRegistry().Find(config.type());
}

absl::StatusOr<std::unique_ptr<IBuffer>> create_buffer(const BufferConfig& config,
                                                       const BufferDeps& deps) {
  DING_ASSIGN_OR_RETURN(const BufferDescriptor descriptor, get_buffer_cls(config));
  if (deps.on_removed != nullptr && !descriptor.tells_removed_items) {
    return absl::InvalidArgumentError(absl::StrCat("on_removed is set, but buffers of type '",
                                                   config.type(),
                                                   "' do not tell which items left them"));
  }
  const ReplayRatioConfig& ratio = config.replay_ratio();
  if (ratio.min() != 0 || ratio.max() != ReplayRatioConfig().max() || ratio.min_size() != 0 ||
      ratio.has_error_buffer()) {
    return absl::InvalidArgumentError(
        "replay_ratio is set, but a buffer does not obey it by itself: the coordinator of a "
        "parallel run does");
  }
  if (!descriptor.takes_remover && !config.remover().type().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "remover.type is '", config.remover().type(), "', but buffers of type '", config.type(),
        "' take no remover: expected type 'advanced', or a type of your own that takes one"));
  }
  DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> buffer, CallFactory("buffer", config.type(), [&] {
                          return descriptor.create(config, deps);
                        }));
  return GuardBuffer(std::move(buffer));
}

}  // namespace ding
