#include "ding_worker/replay_buffer/buffer_config.h"

#include "absl/strings/str_cat.h"

namespace ding {

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
