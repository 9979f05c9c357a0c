#include "ding_worker/replay_buffer/buffer_registry.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer.h"

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

std::shared_ptr<ISelector> ReadSelector(const BufferConfig& config,
                                        std::vector<std::string>* problems) {
  absl::StatusOr<std::unique_ptr<ISelector>> selector = create_selector(config.selector());
  if (selector.ok()) return *std::move(selector);
  problems->emplace_back(selector.status().message());
  return nullptr;
}

std::shared_ptr<IRemover> ReadRemover(const BufferConfig& config,
                                      std::vector<std::string>* problems) {
  absl::StatusOr<std::unique_ptr<IRemover>> remover = create_remover(config.remover());
  if (remover.ok()) return *std::move(remover);
  problems->emplace_back(remover.status().message());
  return nullptr;
}

void ReadBufferConfig(const BufferConfig& config, google::protobuf::Message* params,
                      std::vector<std::string>* problems) {
  ReadParams(config, params, problems);
}

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
