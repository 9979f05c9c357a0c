#include "ding_worker/replay_buffer/buffer_config.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/replay_buffer/selection/selector_registry.h"

namespace ding {

std::shared_ptr<ISelector> ReadSelector(const BufferConfig& config,
                                        std::vector<std::string>* problems) {
  absl::StatusOr<std::unique_ptr<ISelector>> selector = create_selector(config.selector());
  if (selector.ok()) return *std::move(selector);
  problems->emplace_back(selector.status().message());
  return nullptr;
}

void ReadBufferConfig(const BufferConfig& config, google::protobuf::Message* params,
                      std::vector<std::string>* problems) {
  if (!config.has_params()) return;
  if (params == nullptr) {
    problems->push_back(absl::StrCat("params is ", config.params().type_url(), ", but type '",
                                     config.type(), "' has none"));
  } else if (!config.params().UnpackTo(params)) {
    problems->push_back(absl::StrCat("params is ", config.params().type_url(), ", expected ",
                                     params->GetDescriptor()->full_name()));
  }
}

}  // namespace ding
