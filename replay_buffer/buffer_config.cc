#include "ding_worker/replay_buffer/buffer_config.h"

#include <utility>

#include "absl/status/statusor.h"
#include "ding_worker/base/params.h"
#include "ding_worker/replay_buffer/selection/remover_registry.h"
#include "ding_worker/replay_buffer/selection/selector_registry.h"

namespace ding {

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

}  // namespace ding
