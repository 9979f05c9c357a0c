#include "ding_worker/replay_buffer/buffer_registry.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer.h"

namespace ding {

namespace {

// Creates what `config` names; null if it names none.
template <typename Type, typename Config>
auto CreateIfNamed(const ModuleRegistry<Type>& registry, const Config& config)
    -> decltype(registry.Create(config)) {
  const std::string& field = registry.kind();
  if (!config.type().empty()) {
    auto made = registry.Create(config);
    if (absl::IsInvalidArgument(made.status())) return Annotate(made.status(), field);
    return made;
  }
  if (!config.has_params()) return nullptr;
  return absl::InvalidArgumentError(absl::StrCat(field, ".params is set, expected ", field,
                                                 ".type with it, which says what they are for"));
}

// Returns what is made; null if there is a problem, which is added.
template <typename Made>
std::shared_ptr<Made> ShareOrReport(absl::StatusOr<std::unique_ptr<Made>> made,
                                    std::vector<std::string>* problems) {
  if (made.ok()) return *std::move(made);
  problems->emplace_back(made.status().message());
  return nullptr;
}

}  // namespace

std::shared_ptr<RowFiles> ReadStorage(const BufferConfig& config, const ComponentDeps& deps,
                                      absl::string_view name, std::vector<std::string>* problems) {
  if (config.storage() != BufferConfig::DISK) {
    if (config.has_path() && config.path() != BufferConfig().path()) {
      problems->push_back(absl::StrCat("path is '", config.path(),
                                       "', expected storage: DISK with it, which has files there"));
    }
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<RowFiles>> files =
      RowFiles::Open(JoinPath(JoinPath(deps.exp_dir, config.path()), name));
  if (files.ok()) return *std::move(files);
  problems->push_back(absl::StrCat("path: ", files.status().message()));
  return nullptr;
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
  DING_ASSIGN_OR_RETURN(std::unique_ptr<IBuffer> buffer, BufferRegistry().Create(config, deps));
  return GuardBuffer(std::move(buffer));
}

std::shared_ptr<ISelector> ReadSelector(const BufferConfig& config,
                                        std::vector<std::string>* problems) {
  return ShareOrReport(create_selector(config.selector()), problems);
}

std::shared_ptr<IRemover> ReadRemover(const BufferConfig& config,
                                      std::vector<std::string>* problems) {
  return ShareOrReport(create_remover(config.remover()), problems);
}

absl::StatusOr<std::unique_ptr<ISelector>> create_selector(const SelectorConfig& config) {
  return CreateIfNamed(SelectorRegistry(), config);
}

absl::StatusOr<std::unique_ptr<IRemover>> create_remover(const RemoverConfig& config) {
  return CreateIfNamed(RemoverRegistry(), config);
}

}  // namespace ding
